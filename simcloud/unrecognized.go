package simcloud

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/sim"
)

// Unrecognized is a query key or a member of a body that clients sent and the service does
// not read.
type Unrecognized struct {
	Service string `json:"service"`
	// Operation is the operation of the requests, by its name in fault rules.
	Operation sim.OperationName `json:"operation"`
	// What is "query limitt" or "body [].colour", where [] means every item of a list.
	What string `json:"what"`
	// Count is the number of requests, and LastFrom the User-Agent of the last one.
	Count    int    `json:"count"`
	LastFrom string `json:"last_from,omitempty"`
}

var listIndex = regexp.MustCompile(`\[\d+\]`)

// Unrecognized lists, sorted, the query keys and members of bodies in the record
// ([Cloud.Requests]) that the simulated services do not read. They read what the real
// services read, with the exceptions in docs/dev/record.md. The real services ignore most of
// these without an error, so a misspelt name goes unnoticed.
func (c *Cloud) Unrecognized() []Unrecognized {
	found := make(map[Unrecognized]*Unrecognized)
	for _, e := range c.recorder.Unrecognized() {
		seen := make(map[string]bool)
		for _, what := range e.Unrecognized {
			what = listIndex.ReplaceAllString(what, "[]")
			if seen[what] {
				continue
			}
			seen[what] = true
			key := Unrecognized{Service: e.Service, Operation: e.Operation, What: what}
			if found[key] == nil {
				entry := key
				found[key] = &entry
			}
			found[key].Count++
			found[key].LastFrom = e.From
		}
	}
	list := make([]Unrecognized, 0, len(found))
	for _, entry := range found {
		list = append(list, *entry)
	}
	slices.SortFunc(list, func(a, b Unrecognized) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), strings.Compare(a.What, b.What), strings.Compare(a.Service, b.Service))
	})
	return list
}

// CheckNothingUnrecognized fails the test if [Cloud.Unrecognized] lists anything; the text
// has a line for each entry.
func (c *Cloud) CheckNothingUnrecognized(t sim.TB) {
	t.Helper()
	list := c.Unrecognized()
	if len(list) == 0 {
		return
	}
	text := "simcloud: requests with unknown query keys or body fields:\n"
	for _, u := range list {
		text += fmt.Sprintf("  %s: %s (%s, the last from %s)\n", u.Operation, u.What, plural.Count(u.Count, "request"), cmp.Or(u.LastFrom, "none"))
	}
	t.Errorf("%s", text)
}
