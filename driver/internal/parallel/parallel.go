package parallel

import (
	"runtime"
	"sync"
)

// least is the number of jobs below which goroutines cost more than they save.
const least = 64

// ForEach calls do for each number below n, on as many goroutines as there are processors.
// Most of a discovery is waiting for the kernel to open files.
func ForEach(n int, do func(i int)) {
	workers := runtime.GOMAXPROCS(0)
	if n < least || workers < 2 {
		for i := range n {
			do(i)
		}
		return
	}
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < n; i += workers {
				do(i)
			}
		})
	}
	group.Wait()
}
