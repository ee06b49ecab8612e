package ordered

import (
	"iter"
	"runtime"
	"sync"
)

// Ahead calls do for each number below n, on as many goroutines as there are processors, and yields
// the results in the order of the numbers. The work is at most a few results ahead of them. All
// calls have returned when the iteration ends.
func Ahead[T any](n int, do func(i int) T) iter.Seq2[int, T] {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers < 2 {
		return func(yield func(int, T) bool) {
			for i := range n {
				if !yield(i, do(i)) {
					return
				}
			}
		}
	}
	return func(yield func(int, T) bool) {
		results, stop, ended := make(chan chan T, 2*workers), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			start(n, workers, results, stop, do)
		}()
		defer func() {
			close(stop)
			<-ended
		}()
		for i := range n {
			if !yield(i, <-<-results) {
				return
			}
		}
	}
}

// start does the work until stop is closed, and waits for what it began. A goroutine does many pieces: the stack
// of each grows once.
func start[T any](n, workers int, results chan<- chan T, stop <-chan struct{}, do func(i int) T) {
	type piece struct {
		i      int
		result chan<- T
	}
	pieces := make(chan piece)
	var working sync.WaitGroup
	defer working.Wait()
	defer close(pieces)
	for range workers {
		working.Go(func() {
			for p := range pieces {
				p.result <- do(p.i)
			}
		})
	}
	for i := range n {
		result := make(chan T, 1)
		select {
		case results <- result:
			pieces <- piece{i, result}
		case <-stop:
			return
		}
	}
}
