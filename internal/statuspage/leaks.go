package statuspage

import (
	"cmp"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/sim"
)

// leakList is the data of the section of leaks.
type leakList struct {
	Leaks   []leak
	Count   int // of all leaks
	More    int // leaks that are not shown
	Recent  int // leaks that changed within the time of settling
	Checked bool
	Forced  bool   // checked because the address says so
	Check   string // a link that checks
	Problem string // why no check is possible
}

// leak is a leak with links to its accelerator requests and to its story, which may be empty.
type leak struct {
	Text, ARQs, Story string
	ChangedAt         time.Time // if it may be in progress
}

// check is the value of the key leaks that makes a check in any case.
const check = "check"

// settling is how long after a request the resources that it changed may still be in progress: a spawn has allocations and
// accelerator requests before its instance runs.
const settling = 30 * time.Second

// maxRecent is how many requests are looked at for what is in progress.
const maxRecent = 500

// leaks lists the leaks as the leak check does, those in progress included.
func (p *Page) leaks(a address) any {
	data := leakList{Check: a.with(Leaks, Leaks.String(), check), Forced: a.get(Leaks.String()) == check}
	found, checked, err := p.cloud.Leaks(data.Forced)
	data.Count, data.Checked = len(found), checked
	if err != nil {
		data.Problem = err.Error()
	}
	var recent []sim.Exchange
	if len(found) > 0 {
		recent = p.recent()
	}
	for _, l := range found {
		shown := leak{Text: l.Text, ChangedAt: changedAt(recent, l.Subject)}
		if !shown.ChangedAt.IsZero() {
			data.Recent++
		}
		if about := cmp.Or(l.ARQ, l.Instance); about != "" {
			shown.ARQs, shown.Story = a.with(ARQs, ARQs.String(), about, pageKey(ARQs), ""), a.story(cmp.Or(l.Instance, l.ARQ))
		}
		if len(data.Leaks) < pageSize {
			data.Leaks = append(data.Leaks, shown)
		} else {
			data.More++
		}
	}
	return data
}

// recent returns the requests within the time of settling. A manual clock stands still, so that there nothing settles.
func (p *Page) recent() (list []sim.Exchange) {
	now, manual := p.cloud.Now()
	if manual {
		return nil
	}
	requests, _ := p.cloud.Requests(newest, maxRecent)
	for _, r := range requests {
		if now.Sub(r.Started) < settling {
			list = append(list, r)
		}
	}
	return list
}

// changedAt is when the last of some requests changed a resource, zero if none did.
func changedAt(requests []sim.Exchange, subject string) (at time.Time) {
	for _, r := range requests {
		for _, c := range r.Changes {
			if c.Action != sim.Deleted && (strings.Contains(c.ID, subject) || strings.Contains(c.What, subject)) {
				at = r.Started
			}
		}
	}
	return at
}
