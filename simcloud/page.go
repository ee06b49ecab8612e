package simcloud

import (
	"fmt"
	"net/http"

	"github.com/gocyborg/gocyborg/internal/statuspage"
	"github.com/gocyborg/gocyborg/sim"
)

// shownRequests is the number of requests in drawings.
const shownRequests = 100

// EndStreams ends the event streams of open pages, which would delay the shutdown of a
// server. It is for [net/http.Server.RegisterOnShutdown].
func (c *Cloud) EndStreams() { c.endStreams() }

// version changes with the state that the page shows. The first call begins to count commits,
// since Placement describes its changes only for those who listen.
func (c *Cloud) version() string {
	c.countCommits.Do(func() { c.state.OnCommit(func([]sim.RecordChange) { c.commits.Add(1) }) })
	return fmt.Sprint(c.commits.Load(), c.recorder.Started(), c.clock.Now().Unix()/10)
}

// world is the state that the page shows.
func (c *Cloud) world() statuspage.World {
	_, manual := c.clock.(*sim.ManualClock)
	s := c.snapshot()
	w := statuspage.World{
		Now: c.clock.Now(), Manual: manual, Providers: s.providers(), Allocations: s.allocated, Guests: c.Guests(), ARQs: c.Cyborg.ARQs(),
		Faults: c.faults.Rules(), Requests: c.lastRequests(),
	}
	for _, l := range c.check(s) {
		w.Leaks = append(w.Leaks, l.Text)
	}
	return w
}

func (c *Cloud) lastRequests() []sim.Exchange {
	requests := c.Requests()
	return requests[max(0, len(requests)-shownRequests):]
}

// SequenceDiagram draws the last hundred requests as a sequence diagram of Mermaid: sender,
// receiver, path, the first changes, and the answer with the fault that acted. Identifiers
// are cut to their first eight digits.
func (c *Cloud) SequenceDiagram() string { return statuspage.Mermaid(c.lastRequests()) }

// getDiagram answers the diagram of the last requests.
func (c *Cloud) getDiagram(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(c.SequenceDiagram())) // the client may be gone
}
