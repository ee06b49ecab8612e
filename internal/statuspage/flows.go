package statuspage

import (
	"math"
	"strconv"

	"github.com/gocyborg/gocyborg/sim"
)

// newest is above the number of every request.
const newest = math.MaxUint64

// flowList is the data of the section of flows.
type flowList struct {
	list
	Diagrams      []diagram
	Older, Newest string // links; may be empty
}

func (p *Page) flows(a address) any {
	before, err := strconv.ParseUint(a.get(pageKey(Flows)), 10, 64)
	if err != nil {
		before = newest
	}
	data := flowList{list: a.search(Flows, "Filter by UUID, host or path:")}
	var requests []sim.Exchange
	var older uint64
	if data.Text == "" {
		requests, older = p.cloud.Requests(before, shownRequests)
	} else {
		requests, older = about(p.cloud.Record(), data.Text, before, shownOfStory)
	}
	for _, f := range flows(requests) {
		d := draw(f)
		if d.Instance != "" && d.Instance != data.Text {
			d.Story = a.story(d.Instance)
		}
		data.Diagrams = append(data.Diagrams, d)
	}
	if older > 0 {
		data.Older = a.with(Flows, pageKey(Flows), strconv.FormatUint(older, 10))
	}
	if before != newest {
		data.Newest = a.with(Flows, pageKey(Flows), "")
	}
	return data
}

// story is a link to the requests about an instance.
func (a address) story(instance string) string {
	return a.with(Flows, Flows.String(), instance, pageKey(Flows), "")
}
