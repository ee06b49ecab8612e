package simhttp

import (
	"bytes"
	"io"
	"net/http"
)

// readAhead is a request body of which the beginning, usually all, was read before the
// service sees it, so that it can be checked.
type readAhead struct {
	io.Reader
	io.Closer
	data []byte // what was read, MaxBody+1 bytes at most
	err  error  // of reading it; nil: that was all, or as much as a service reads
	used bool
}

// bufferBody reads the body of a request before the service does, and returns it: nil
// where there is none, and where the route does not read it as JSON.
func bufferBody(r *http.Request, match Match) []byte {
	if r.Body == nil || r.Body == http.NoBody || match.Route == nil || match.Route.Data {
		return nil
	}
	b := newReadAhead(r.Body)
	r.Body = b
	return b.data
}

// newReadAhead reads the body as far as a service would.
func newReadAhead(body io.ReadCloser) *readAhead {
	data, err := io.ReadAll(io.LimitReader(body, MaxBody+1))
	rest := io.Reader(body)
	if err != nil {
		rest = failing{err}
	}
	return &readAhead{Reader: io.MultiReader(bytes.NewReader(data), rest), Closer: body, data: data, err: err}
}

// Read implements io.Reader.
func (b *readAhead) Read(p []byte) (int, error) {
	b.used = true
	return b.Reader.Read(p)
}

func (b *readAhead) untouched() bool { return !b.used }

// take is the whole body at once, for those that only look at it; once only.
func (b *readAhead) take() ([]byte, error) {
	b.used = true
	b.Reader = bytes.NewReader(nil)
	switch {
	case len(b.data) > MaxBody:
		return nil, ErrBodyTooLarge
	case b.err != nil:
		return nil, b.err
	}
	return b.data[:len(b.data):len(b.data)], nil
}

type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }
