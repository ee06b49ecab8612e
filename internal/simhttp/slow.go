package simhttp

import (
	"maps"
	"net/http"
	"strconv"
	"time"
)

// slowSteps is in how many pieces a slow body is sent.
const slowSteps = 10

// trickle sends status and headers at once and the body in pieces, the last of them after
// the given time. An answer without a body comes late as a whole. In process, where the
// handler runs on the caller's goroutine, the caller notices nothing before the end.
func (s *Service) trickle(w http.ResponseWriter, r *http.Request, answer *buffer, total time.Duration) {
	body := answer.body.Bytes()
	steps := min(len(body), slowSteps)
	if steps == 0 {
		s.pause(r, total)
		answer.copyTo(w, nil)
		return
	}
	answer.header.Set("Content-Length", strconv.Itoa(len(body))) // so that a client notices an early end
	maps.Copy(w.Header(), answer.header)
	answer.WriteHeader(http.StatusOK)
	w.WriteHeader(answer.status)
	connection := http.NewResponseController(w)
	for i := range steps {
		_ = connection.Flush() // not possible in process
		s.pause(r, total*time.Duration(i+1)/time.Duration(steps)-total*time.Duration(i)/time.Duration(steps))
		_, _ = w.Write(body[len(body)*i/steps : len(body)*(i+1)/steps]) // the caller may be gone
	}
}

// pause waits on the service's clock; a caller that is gone ends the answer.
func (s *Service) pause(r *http.Request, d time.Duration) {
	if s.Clock.Wait(r.Context(), d) != nil {
		panic(http.ErrAbortHandler)
	}
}
