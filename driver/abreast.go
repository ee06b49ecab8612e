package driver

import (
	"runtime"
	"sync"
)

// fewFunctions are done one after the other.
const fewFunctions = 64

// abreast calls do for each number below n, on as many goroutines as there are
// processors. Most of a discovery is waiting for the kernel to open files.
func abreast(n int, do func(i int)) {
	workers := runtime.GOMAXPROCS(0)
	if n < fewFunctions || workers < 2 {
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

// readAhead reads the states of functions that will be asked for. It is of use with a
// tree made by NewView only, which remembers them.
func readAhead(tree Tree, functions []PCIFunction) {
	if v, ok := tree.(*view); ok {
		abreast(len(functions), func(i int) { v.state(functions[i]) })
	}
}
