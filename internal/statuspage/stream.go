package statuspage

import (
	"fmt"
	"net/http"
	"time"
)

// Limits of the streams.
const (
	maxStreams  = 16
	maxLifetime = 10 * time.Minute // the browser connects again
	period      = 500 * time.Millisecond
)

// stream sends an event when the version has changed, at most one in each period.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		http.Error(w, "too many open streams", http.StatusServiceUnavailable)
		return
	}
	protect(w.Header())
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	end := time.NewTimer(maxLifetime)
	defer end.Stop()
	for known := ""; ; {
		if version := p.Version(); version != known {
			known = version
			if _, err := fmt.Fprint(w, "event: change\ndata:\n\n"); err != nil || flusher.Flush() != nil {
				return
			}
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		case <-end.C:
			return
		case <-p.Done:
			return
		}
	}
}
