package simhttp

import (
	"slices"
	"sync"
	"time"
)

// Exchange is one recorded request and its answer. Bodies and tokens are not
// kept.
type Exchange struct {
	Service   string `json:"service"`
	Operation string `json:"operation"`
	Subject   string `json:"subject,omitempty"`
	// From is the caller's User-Agent header.
	From         string        `json:"from,omitempty"`
	Method       string        `json:"method"`
	Path         string        `json:"path"`
	Query        string        `json:"query,omitempty"`
	Microversion string        `json:"microversion,omitempty"`
	RequestID    string        `json:"request_id"`
	Status       int           `json:"status"` // 0: no answer was sent
	Fault        string        `json:"fault,omitempty"`
	Started      time.Time     `json:"started"`
	Duration     time.Duration `json:"duration_ns"`
}

// Recorder keeps the newest exchanges of a simulated cloud, in the order in
// which they started. A nil Recorder records nothing.
type Recorder struct {
	mu        sync.Mutex
	limit     int
	exchanges []Exchange
}

// NewRecorder returns a recorder that keeps the newest limit exchanges.
func NewRecorder(limit int) *Recorder { return &Recorder{limit: max(limit, 1)} }

// add keeps an exchange. It is called when a request ends, so nested requests
// arrive before the one that caused them; Exchanges sorts by start.
func (r *Recorder) add(e Exchange) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.exchanges) >= 2*r.limit {
		r.exchanges = append(r.exchanges[:0], r.exchanges[len(r.exchanges)-r.limit:]...)
	}
	r.exchanges = append(r.exchanges, e)
}

// Exchanges returns the newest exchanges, at most the recorder's limit, sorted
// by when they started.
func (r *Recorder) Exchanges() []Exchange {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	kept := slices.Clone(r.exchanges[max(0, len(r.exchanges)-r.limit):])
	r.mu.Unlock()
	slices.SortStableFunc(kept, func(a, b Exchange) int { return a.Started.Compare(b.Started) })
	return kept
}

// Reset forgets everything.
func (r *Recorder) Reset() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exchanges = nil
}
