package statuspage

import (
	"fmt"
	"slices"
	"time"
)

// Diagram is a sequence diagram, laid out in the units of its own drawing.
type Diagram struct {
	Title         string
	Width, Height int
	Lines         []Lifeline
	Arrows        []Arrow
}

// Lifeline is a participant.
type Lifeline struct {
	Name string
	X    int
}

// Arrow is a request with its answer.
type Arrow struct {
	FromX, ToX, Y, LabelX int
	Head                  string // points of the arrow's head
	Label, Answer         string
	Failed                bool
	Changes               []string
}

// How a diagram is laid out.
const (
	laneWidth   = 190
	rowHeight   = 34
	headHeight  = 40
	maxPerFlow  = 40
	maxDiagrams = 3
	quiet       = 2 * time.Second // between two flows
)

// diagrams draws the last flows, the newest first. A flow ends where nothing was asked
// for a while.
func diagrams(exchanges []Exchange) []Diagram {
	var list []Diagram
	flows := split(exchanges)
	for i := len(flows) - 1; i >= 0 && len(list) < maxDiagrams; i-- {
		list = append(list, draw(flows[i]))
	}
	return list
}

func split(exchanges []Exchange) [][]Exchange {
	var flows [][]Exchange
	for i, e := range exchanges {
		last := len(flows) - 1
		if i == 0 || e.Started.Sub(exchanges[i-1].Started) > quiet || len(flows[last]) == maxPerFlow {
			flows = append(flows, nil)
			last++
		}
		flows[last] = append(flows[last], e)
	}
	return flows
}

func draw(flow []Exchange) Diagram {
	var names []string
	for _, e := range flow {
		for _, name := range []string{e.From, e.To} {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	d := Diagram{
		Title: fmt.Sprintf("%d requests from %s", len(flow), flow[0].Started.UTC().Format("15:04:05")),
		Width: laneWidth*len(names) + laneWidth/3, Height: headHeight + rowHeight*len(flow) + rowHeight/2,
	}
	for i, name := range names {
		d.Lines = append(d.Lines, Lifeline{Name: name, X: laneWidth*i + laneWidth/2})
	}
	for i, e := range flow {
		d.Arrows = append(d.Arrows, arrow(e, names, headHeight+rowHeight*(i+1)))
	}
	return d
}

func arrow(e Exchange, names []string, y int) Arrow {
	from := laneWidth*slices.Index(names, e.From) + laneWidth/2
	to := laneWidth*slices.Index(names, e.To) + laneWidth/2
	back := 8
	if to < from {
		back = -8
	}
	a := Arrow{
		FromX: from, ToX: to, Y: y, LabelX: min(from, to) + 6,
		Head:  fmt.Sprintf("%d,%d %d,%d %d,%d", to, y, to-back, y-4, to-back, y+4),
		Label: e.What, Answer: answer(e), Failed: e.Status == 0 || e.Status >= 400, Changes: e.Changes,
	}
	return a
}

// answer says in words what came back.
func answer(e Exchange) string {
	text := fmt.Sprint(e.Status)
	if e.Status == 0 {
		text = "no answer"
	}
	if e.Fault != "" {
		text += ", fault " + e.Fault
	}
	return text
}
