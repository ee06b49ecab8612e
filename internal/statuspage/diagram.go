package statuspage

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/sim"
)

// diagram is a sequence diagram, in the units of its drawing, with the same as a list.
type diagram struct {
	Instance      string // UUID; may be empty
	Story         string // a link; empty without an instance
	Title         string
	Width, Height int
	Lines         []lifeline
	Arrows        []arrow
}

// lifeline is a participant.
type lifeline struct {
	Name string
	X    int
}

// arrow is a request with its answer.
type arrow struct {
	FromX, ToX, Y, LabelX   int
	Head                    string // points of the arrow's head
	From, To, Label, Answer string
	Failed                  bool
	Changes                 []string
}

// The layout of a diagram.
const (
	laneWidth  = 190
	rowHeight  = 34
	headHeight = 40
	maxPerFlow = 40
	maxPause   = 2 * time.Second // between requests of no story
)

// flow is a part of the record: requests of one story, or of none.
type flow struct {
	instance string
	requests []sim.Exchange
	last     int // of its requests, in the record
}

// flows divides requests into those of one story each, so that spawns at the same time stand apart, and the others at pauses.
// The flow with the newest request is the first.
func flows(requests []sim.Exchange) []flow {
	joined, topics := newStories(), make([]topic, len(requests))
	for i, r := range requests {
		topics[i] = topicOf(r)
		joined.add(topics[i])
	}
	open := make(map[string]*flow) // by story
	var all []*flow
	for i, r := range requests {
		story := joined.of(topics[i])
		f := open[story]
		if f == nil || len(f.requests) == maxPerFlow || story == "" && r.Started.Sub(f.requests[len(f.requests)-1].Started) > maxPause {
			f = &flow{instance: joined.instance[story]}
			open[story], all = f, append(all, f)
		}
		f.requests, f.last = append(f.requests, r), i
	}
	slices.SortFunc(all, func(a, b *flow) int { return cmp.Compare(b.last, a.last) })
	list := make([]flow, len(all))
	for i, f := range all {
		list[i] = *f
	}
	return list
}

func draw(f flow) diagram {
	lanes := names(f.requests)
	d := diagram{
		Instance: f.instance,
		Title:    plural.Count(len(f.requests), "request") + " from " + f.requests[0].Started.UTC().Format("15:04:05"),
		Width:    laneWidth*len(lanes) + laneWidth/3, Height: headHeight + rowHeight*len(f.requests) + rowHeight/2,
	}
	for i, name := range lanes {
		d.Lines = append(d.Lines, lifeline{Name: name, X: laneWidth*i + laneWidth/2})
	}
	for i, r := range f.requests {
		d.Arrows = append(d.Arrows, drawArrow(r, lanes, headHeight+rowHeight*(i+1)))
	}
	return d
}

func drawArrow(r sim.Exchange, lanes []string, y int) arrow {
	a := arrow{Y: y, From: sender(r), To: receiver(r), Label: label(r), Answer: answer(r), Failed: r.Status == 0 || r.Status >= 400, Changes: changes(r)}
	a.FromX = laneWidth*slices.Index(lanes, a.From) + laneWidth/2
	a.ToX = laneWidth*slices.Index(lanes, a.To) + laneWidth/2
	a.LabelX = min(a.FromX, a.ToX) + 6
	back := 8
	if a.ToX < a.FromX {
		back = -8
	}
	a.Head = fmt.Sprintf("%d,%d %d,%d %d,%d", a.ToX, y, a.ToX-back, y-4, a.ToX-back, y+4)
	return a
}
