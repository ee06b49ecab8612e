package driver

import (
	"runtime"
	"sync"
)

// minParallel is the number of items below which goroutines cost more than they save.
const minParallel = 64

// forEachParallel calls do for each number below n, on as many goroutines as there are
// processors. Most of a discovery is waiting for the kernel to open files.
func forEachParallel(n int, do func(i int)) {
	workers := runtime.GOMAXPROCS(0)
	if n < minParallel || workers < 2 {
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
