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

// reset lets the last long slice be cut anew; one of unusual length is not
// kept.
func (a *arena[T]) reset() {
	if len(a.chunk) > maxChunk {
		a.chunk = nil
	}
	a.used = 0
}

// answer is the memory of an answer, which may be used again for another one.
type answer struct {
	found     []Request
	summaries []Summary
	sources   []*provider            // what summaries are about, see search.note
	known     map[*provider]struct{} // the same

	amounts  arena[ProviderAmount]
	mappings arena[Mapping]
	uuids    arena[string]
	uses     arena[ClassUse]
}

// newAnswer returns memory that is empty.
func (s *State) newAnswer() *answer {
	if used, ok := s.answers.Get().(*answer); ok {
		return used
	}
	return &answer{known: make(map[*provider]struct{})}
}

// Release gives the memory of an answer back for other answers. Neither the
// answer nor any part of it may be used afterwards. It need not be called.
func (c *Candidates) Release() {
	a, state := c.memory, c.state
	if a == nil {
		return
	}
	*c = Candidates{}
	if cap(a.found) > maxChunk || cap(a.summaries) > maxChunk {
		a.found, a.summaries = nil, nil
	}
	clear(a.known)
	clear(a.sources)
	a.found, a.summaries, a.sources = a.found[:0], a.summaries[:0], a.sources[:0]
	a.amounts.reset()
	a.mappings.reset()
	a.uuids.reset()
	a.uses.reset()
	state.answers.Put(a)
}
