package statuspage

import (
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/sim"
)

// leakList is the data of the section of leaks.
type leakList struct {
	Leaks      []string
	More       int // leaks that are left out
	InProgress []string
	Checked    bool
	Forced     bool   // checked because the address says so
	Check      string // a link that checks
}

// check is the value of the key leaks that makes a check in any case.
const check = "check"

// settling is how long after a request what it touched may still be in progress: a spawn has allocations and
// accelerator requests before its instance runs.
const settling = 30 * time.Second

// maxRecent is how many requests are looked at for what is in progress.
const maxRecent = 500

func (p *Page) leaks(a address) any {
	data := leakList{Check: a.with(Leaks, Leaks.String(), check), Forced: a.get(Leaks.String()) == check}
	var found []Leak
	found, data.Checked = p.cloud.Leaks(data.Forced)
	var recent []sim.Exchange
	if len(found) > 0 {
		recent = p.recent()
	}
	for _, leak := range found {
		switch {
		case touched(recent, leak.Subject):
			if len(data.InProgress) < pageSize {
				data.InProgress = append(data.InProgress, leak.Text)
			}
		case len(data.Leaks) < pageSize:
			data.Leaks = append(data.Leaks, leak.Text)
		default:
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

// touched reports whether a request changed something.
func touched(requests []sim.Exchange, subject string) bool {
	for _, r := range requests {
		for _, c := range r.Changes {
			if c.Action != sim.Deleted && (strings.Contains(c.ID, subject) || strings.Contains(c.What, subject)) {
				return true
			}
		}
	}
	return false
}
