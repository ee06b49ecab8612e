package simhttp

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
)

// buffer is an http.ResponseWriter that keeps the answer in memory.
type buffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newBuffer() *buffer { return &buffer{header: make(http.Header)} }

// Header implements http.ResponseWriter.
func (b *buffer) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter; only the first call counts.
func (b *buffer) WriteHeader(status int) {
	if b.status == 0 {
		b.status = status
	}
}

// Write implements http.ResponseWriter.
func (b *buffer) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(p)
}

// copyTo sends the kept headers and status with the given body.
func (b *buffer) copyTo(w http.ResponseWriter, body []byte) {
	maps.Copy(w.Header(), b.header)
	b.WriteHeader(http.StatusOK)
	w.WriteHeader(b.status)
	_, _ = w.Write(body) // the caller may be gone
}

// truncateTo promises the whole body, sends half and closes the connection.
func (b *buffer) truncateTo(w http.ResponseWriter) {
	body := b.body.Bytes()
	if len(body) == 0 {
		panic(http.ErrAbortHandler) // nothing to cut: no answer at all
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	b.header.Del("Content-Length")
	b.copyTo(w, body[:len(body)/2])
	_ = http.NewResponseController(w).Flush() // not needed, nor possible, in process
	panic(http.ErrAbortHandler)
}
