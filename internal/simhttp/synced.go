package simhttp

import (
	"net/http"
	"strings"
)

// Synced answers no request until sync has returned: everything that the answer shows is then on disk. A read
// waits, too, because it may show what another request has changed. The error of sync is answered 500
// instead, except to a look at the simulator itself: its health and its state are to be seen when the disk is
// full. It does not wait for the requests that services send each other in process: their senders do.
func Synced(next http.Handler, sync func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if IsInternal(r.Context()) {
			next.ServeHTTP(w, r)
			return
		}
		out := &syncedReply{ResponseWriter: w, sync: sync, unwritten: "the change was made, but could not be written to the state file"}
		if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
			out.unwritten = "what the answer shows could not be written to the state file"
			if strings.HasPrefix(r.URL.Path, "/_sim/") {
				out.sync = func() error { _ = sync(); return nil }
			}
		}
		next.ServeHTTP(out, r)
		out.WriteHeader(http.StatusOK) // of a handler that wrote nothing
	})
}

// syncedReply waits for the disk before the first byte of a reply.
type syncedReply struct {
	http.ResponseWriter
	sync      func() error
	unwritten string // the text about an error
	began     bool
	refused   bool
}

// WriteHeader implements http.ResponseWriter.
func (w *syncedReply) WriteHeader(status int) {
	if w.began {
		return
	}
	w.began = true
	if err := w.sync(); err != nil {
		w.refused = true
		w.Header().Del("Content-Length")
		http.Error(w.ResponseWriter, w.unwritten+": "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer.
func (w *syncedReply) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *syncedReply) Unwrap() http.ResponseWriter { return w.ResponseWriter }
