package engine

// arena hands out short slices cut from long ones, to spare a search the many
// small allocations of its answer.
type arena[T any] struct {
	chunk []T // the long slice that is being cut
	used  int
}

// maxChunk is how long the long slices get, unless a short one is longer.
const maxChunk = 4096

// take returns an empty slice with room for n values.
func (a *arena[T]) take(n int) []T {
	if len(a.chunk)-a.used < n {
		a.chunk, a.used = make([]T, max(n, 32, min(2*len(a.chunk), maxChunk))), 0
	}
	cut := a.chunk[a.used : a.used : a.used+n]
	a.used += n
	return cut
}

// hold returns a pointer to a copy of a value.
func (a *arena[T]) hold(value T) *T { return &append(a.take(1), value)[0] }

// reset lets the last long slice be cut anew; one of unusual length is not
// kept.
func (a *arena[T]) reset() {
	if len(a.chunk) > maxChunk {
		a.chunk = nil
	}
	a.used = 0
}

// reused empties a slice whose memory is used again, unless it is unusually long.
func reused[T any](list []T) []T {
	if cap(list) > 16*maxChunk {
		return nil
	}
	return list[:0]
}
