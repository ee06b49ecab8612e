package simcloud

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/statuspage"
	"github.com/gocyborg/gocyborg/internal/strictjson"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
)

// shownRequests is the number of requests in a diagram.
const shownRequests = 100

// EndStreams ends the event streams of open pages, which would delay the shutdown of a
// server. It is for [net/http.Server.RegisterOnShutdown].
func (c *Cloud) EndStreams() { c.endStreams() }

// pageCloud is what the page reads of a cloud.
type pageCloud struct{ *Cloud }

// Now implements statuspage.Cloud.
func (c pageCloud) Now() (now time.Time, manual bool) {
	_, manual = c.clock.(*sim.ManualClock)
	return c.clock.Now(), manual
}

// About implements statuspage.Cloud.
func (c pageCloud) About() statuspage.About {
	release := "Cyborg " + string(cmp.Or(c.model.Cyborg.Release, fakecyborg.Release20262))
	if url, elsewhere := c.model.Catalog["compute"]; elsewhere {
		release += ", Nova at " + simhttp.ShownURL(url)
	} else if of, err := nova.ParseRelease(c.model.NovaRelease); err == nil {
		release += ", Nova " + of.Series()
	}
	model := plural.Count(len(c.machines), "host") + ", " + plural.Count(len(c.model.DeviceProfiles), "device profile")
	return statuspage.About{Release: release, Model: model, Since: c.started}
}

// Versions implements statuspage.Cloud. The first call begins to count commits, since Placement
// describes its changes only for listeners. The time also changes the page: agents fall silent.
func (c pageCloud) Versions() (v statuspage.Versions) {
	c.countCommits.Do(func() { c.state.OnCommit(c.commits.count) })
	tick, requests := uint64(c.clock.Now().Unix()/10), c.recorder.Revision()
	all, placement, compute, accelerator := c.commits.all.Load(), c.commits.placement.Load(), c.commits.compute.Load(), c.commits.accelerator.Load()
	v[statuspage.Now] = tick
	v[statuspage.Leaks] = all + tick
	v[statuspage.Hosts] = placement + compute + accelerator
	v[statuspage.Guests] = compute
	v[statuspage.ARQs] = accelerator + tick
	v[statuspage.Flows] = requests
	v[statuspage.Explain] = placement + accelerator
	v[statuspage.Faults] = all + requests
	v[statuspage.Unknown] = c.recorder.UnrecognizedRevision()
	if c.external != nil { // its commits are unknown
		v[statuspage.Hosts] += requests + tick
		v[statuspage.Explain] += requests + tick
	}
	return v
}

// commits counts transactions: all, and those of some services.
type commits struct{ all, placement, compute, accelerator atomic.Uint64 }

func (n *commits) count(changes []sim.RecordChange) {
	n.all.Add(1)
	for _, c := range changes {
		service, _, _ := strings.Cut(c.Table, ".")
		switch service {
		case "placement":
			n.placement.Add(1)
		case "compute":
			n.compute.Add(1)
		case "accelerator":
			n.accelerator.Add(1)
		}
	}
}

// Trees implements statuspage.Cloud.
func (c pageCloud) Trees(q statuspage.Query) (trees [][]placementsim.UsedProvider, matching int) {
	if c.external == nil {
		return c.Placement.Trees(q.Text, q.Skip, q.Limit)
	}
	return c.externalTrees(q)
}

// Totals implements statuspage.Cloud.
func (c pageCloud) Totals(text string) (inventories map[string]placementsim.Inventory, used map[string]int) {
	return c.Placement.Totals(text)
}

// UnitsInUse implements statuspage.Cloud.
func (c pageCloud) UnitsInUse(hosts []string) map[[2]string]int {
	return c.Cyborg.UnitsInUse(hosts...)
}

// Guests implements statuspage.Cloud.
func (c pageCloud) Guests(q statuspage.Query) (guests []sim.Guest, matching int) {
	c.compute.EachGuest(func(g sim.Guest) bool {
		if q.Text == "" || strings.Contains(g.UUID, q.Text) || strings.Contains(g.Host, q.Text) {
			if matching++; matching > q.Skip && len(guests) < q.Limit {
				guests = append(guests, g)
			}
		}
		return q.Text != "" || len(guests) < q.Limit
	})
	if q.Text == "" {
		matching = c.compute.CountGuests()
	}
	return guests, matching
}

// LostEvents implements statuspage.Cloud.
func (c pageCloud) LostEvents(limit int) (lost []string) {
	c.compute.EachLostEvent(func(text string) bool {
		lost = append(lost, text)
		return len(lost) < limit
	})
	return lost
}

// GuestsOf implements statuspage.Cloud.
func (c pageCloud) GuestsOf(hosts []string) map[string][]string {
	guests := make(map[string][]string, len(hosts))
	for _, host := range hosts {
		guests[host] = c.compute.GuestsOn(host)
	}
	return guests
}

// ProblemsOf implements statuspage.Cloud.
func (c pageCloud) ProblemsOf(hosts []string) map[string][]string {
	problems := make(map[string][]string)
	if len(hosts) == 0 {
		return problems
	}
	for _, r := range c.Cyborg.DriverReports(hosts...) {
		for _, conflict := range r.Conflicts {
			problems[r.Host] = append(problems[r.Host], conflict.Address+" is offered by Nova, too: "+conflict.Reason)
		}
		for _, p := range r.Problems {
			problems[r.Host] = append(problems[r.Host], p.Error())
		}
	}
	return problems
}

// ARQs implements statuspage.Cloud.
func (c pageCloud) ARQs(q statuspage.Query) fakecyborg.ARQPage {
	return c.Cyborg.SearchARQs(q.Text, q.Skip, q.Limit)
}

// Requests implements statuspage.Cloud.
func (c pageCloud) Requests(before uint64, limit int) (requests []sim.Exchange, older uint64) {
	return c.recorder.Page(before, limit)
}

// Record implements statuspage.Cloud.
func (c pageCloud) Record() iter.Seq2[uint64, sim.Exchange] { return c.recorder.All() }

// Faults implements statuspage.Cloud.
func (c pageCloud) Faults() []fault.State { return c.faults.Rules() }

// Operations implements statuspage.Cloud.
func (c pageCloud) Operations() []fault.Operation {
	return slices.Concat(c.faults.Services(), c.faults.Describe())
}

// AddFault implements statuspage.Cloud.
func (c pageCloud) AddFault(rule fault.Rule) error { return c.faults.Add(rule) }

// RemoveFault implements statuspage.Cloud.
func (c pageCloud) RemoveFault(rule fault.Rule) { c.faults.Remove(rule) }

// Advance implements statuspage.Cloud.
func (c pageCloud) Advance(ctx context.Context, by time.Duration) error {
	advance := strictjson.Duration(by)
	return clockChange{Advance: &advance}.apply(ctx, c.clock)
}

// Flavors implements statuspage.Cloud.
func (c pageCloud) Flavors() (list []requestspec.Flavor) {
	for _, f := range c.model.Flavors {
		list = append(list, requestspec.Flavor(f))
	}
	return list
}

// DeviceProfiles implements statuspage.Cloud.
func (c pageCloud) DeviceProfiles() (list []requestspec.Profile) {
	for _, p := range c.Cyborg.DeviceProfiles() {
		list = append(list, requestspec.Profile{Name: p.Name, Groups: p.Groups})
	}
	return list
}

// Explain implements statuspage.Cloud.
func (c pageCloud) Explain(query string, shown statuspage.Query) (statuspage.Explanation, error) {
	c.explaining.Lock() // one page at a time: all hosts are explained although only some are shown
	defer c.explaining.Unlock()
	why, err := c.Placement.Explain(query)
	if err != nil {
		return statuspage.Explanation{}, err
	}
	var answer statuspage.Explanation
	hosts := make(map[string]bool)
	var failing, candidates []string
	for line := range strings.Lines(why.String()) {
		host, reason, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "host ")), ": ")
		hosts[host] = true
		if reason == "candidate" {
			answer.Candidates++
			candidates = append(candidates, line)
		} else {
			failing = append(failing, line)
		}
	}
	for _, line := range slices.Concat(failing, candidates) {
		if strings.Contains(line, shown.Text) {
			if answer.Matching++; answer.Matching > shown.Skip && len(answer.Reasons) < shown.Limit {
				answer.Reasons = append(answer.Reasons, strings.TrimSpace(line))
			}
		}
	}
	answer.Hosts = len(hosts)
	return answer, nil
}

// Unrecognized implements statuspage.Cloud.
func (c pageCloud) Unrecognized() (list []statuspage.Unrecognized) {
	for _, u := range c.Cloud.Unrecognized() {
		list = append(list, statuspage.Unrecognized{Operation: string(u.Operation), What: u.What, From: u.LastFrom, Count: u.Count})
	}
	return list
}

// The largest cloud that is checked for leaks whenever it changes.
const (
	maxCheckedHosts  = 100
	maxCheckedGuests = 1000
)

// Leaks implements statuspage.Cloud. They are those of GET /_sim/leaks.
func (c pageCloud) Leaks(force bool) (leaks []statuspage.Leak, checked bool, err error) {
	if !force && (len(c.machines) > maxCheckedHosts || c.compute.CountGuests() > maxCheckedGuests) {
		return nil, false, nil
	}
	found, err := c.leaksBeside(context.Background(), c.model.GuestsFrom)
	if err != nil {
		return nil, false, fmt.Errorf("request to Nova failed: %w", err)
	}
	for _, l := range found {
		leak := statuspage.Leak{Subject: l.Subject, Text: l.Text, ARQ: l.ARQ}
		if l.Kind == LeakGuest || l.Kind == LeakAllocation {
			leak.Instance = l.Subject
		}
		leaks = append(leaks, leak)
	}
	return leaks, true, nil
}

func (c *Cloud) lastRequests() []sim.Exchange {
	requests, _ := c.recorder.Page(math.MaxUint64, shownRequests)
	return requests
}

// SequenceDiagram draws the last hundred requests as a sequence diagram of Mermaid: sender,
// receiver, path, the first changes, and the answer with the fault that acted. Identifiers
// are cut to their first eight digits. The steps, in the order of their times, are drawn
// between the requests.
func (c *Cloud) SequenceDiagram(steps ...ClientStep) string {
	drawn := make([]statuspage.Step, 0, len(steps))
	for _, s := range steps {
		drawn = append(drawn, statuspage.Step(s))
	}
	return statuspage.Mermaid(c.lastRequests(), drawn...)
}

// ClientStep is something that a client did on its own, such as choosing a candidate: a
// message to itself in [Cloud.SequenceDiagram].
type ClientStep struct {
	At   time.Time
	Text string
}

// getDiagram answers the diagram of the last requests.
func (c *Cloud) getDiagram(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(c.SequenceDiagram())) // the client may be gone
}
