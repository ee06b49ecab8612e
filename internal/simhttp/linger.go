package simhttp

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"
)

// lingerTime is how long a connection is read on after its request was refused as too long.
const lingerTime = 10 * time.Second

// lingering serves answers of status 413 with linger.
func lingering(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &statusWriter{ResponseWriter: w}
		handler.ServeHTTP(out, r)
		out.linger(r.Body)
	})
}

// refuses reports whether an answer is kept for linger: it is one of status 413 to a connection.
func (w *statusWriter) refuses(status int) bool {
	if status != http.StatusRequestEntityTooLarge || http.NewResponseController(w.ResponseWriter).EnableFullDuplex() != nil {
		return false
	}
	w.refusal = new(bytes.Buffer)
	return true
}

// linger sends an answer of status 413 and reads on what the client still sends. A connection that is closed
// with unread data is reset, which takes the answer from a client that has not read it yet.
func (w *statusWriter) linger(body io.Reader) {
	if w.refusal == nil {
		return
	}
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Length", strconv.Itoa(w.refusal.Len())) // the client does not wait for the end of the connection
	w.ResponseWriter.WriteHeader(w.status)
	_, _ = w.ResponseWriter.Write(w.refusal.Bytes()) // the client may be gone
	controller := http.NewResponseController(w.ResponseWriter)
	if controller.Flush() == nil && controller.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.Copy(io.Discard, body)
	}
}
