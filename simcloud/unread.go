package simcloud

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// Unread is something that clients sent and nobody read.
type Unread struct {
	Service string `json:"service"`
	// Operation is that of the requests, by its name in fault rules.
	Operation string `json:"operation"`
	// What is "query limitt", "header X-Foo" or "body [].colour": the key, the header,
	// the path of the member, [] standing for every item of a list.
	What string `json:"what"`
	// Count is how many requests had it, and LastFrom the User-Agent of the last.
	Count    int    `json:"count"`
	LastFrom string `json:"last_from,omitempty"`
}

// index is the place of an item in a list.
var index = regexp.MustCompile(`\[\d+\]`)

// Unread lists what the requests of the record ([Cloud.Requests]) carried and nobody read,
// sorted. It is what the simulated services do not read. They read what the real ones do,
// with the exceptions that docs/record.md names; most of it the real ones ignore in
// silence, which is how a misspelt name stays unnoticed.
func (c *Cloud) Unread() []Unread {
	found := make(map[Unread]*Unread)
	for _, e := range c.recorder.Exchanges() {
		seen := make(map[string]bool)
		for _, what := range e.Unrecognized {
			what = index.ReplaceAllString(what, "[]")
			if seen[what] {
				continue
			}
			seen[what] = true
			key := Unread{Service: e.Service, Operation: e.Operation, What: what}
			if found[key] == nil {
				entry := key
				found[key] = &entry
			}
			found[key].Count++
			found[key].LastFrom = e.From
		}
	}
	list := make([]Unread, 0, len(found))
	for _, entry := range found {
		list = append(list, *entry)
	}
	slices.SortFunc(list, func(a, b Unread) int {
		return cmp.Or(strings.Compare(a.Operation, b.Operation), strings.Compare(a.What, b.What), strings.Compare(a.Service, b.Service))
	})
	return list
}

// CheckAllRead fails the test if [Cloud.Unread] lists anything; the text has a line for
// each.
func (c *Cloud) CheckAllRead(t sim.TB) {
	t.Helper()
	list := c.Unread()
	if len(list) == 0 {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "simcloud: %d things were sent and nobody read them:\n", len(list))
	for _, u := range list {
		fmt.Fprintf(&b, "  %s: %s (%d requests, the last from %s)\n", u.Operation, u.What, u.Count, orNone(u.LastFrom))
	}
	t.Errorf("%s", b.String())
}

func (c *Cloud) getUnread(w http.ResponseWriter, _ *http.Request) {
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("unread", c.Unread()))
}
