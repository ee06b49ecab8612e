package statuspage

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Limits of the streams.
const (
	maxStreams  = 16
	maxLifetime = 10 * time.Minute // the browser connects again
	period      = 500 * time.Millisecond
)

// stream sends the names of the sections whose versions have changed, at most once in each
// period. The first message has all names.
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
	var known Versions
	for first := true; ; first = false {
		versions := p.cloud.Versions()
		if changed := changedSections(known, versions, first); changed != "" {
			known = versions
			if _, err := fmt.Fprintf(w, "event: change\ndata: %s\n\n", changed); err != nil || flusher.Flush() != nil {
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

// changedSections names the sections whose versions differ.
func changedSections(before, after Versions, all bool) string {
	var names []string
	for section := range sections {
		if all || before[section] != after[section] {
			names = append(names, section.String())
		}
	}
	return strings.Join(names, " ")
}
