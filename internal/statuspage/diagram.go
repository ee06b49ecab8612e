package statuspage

import (
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/sim"
)

// diagram is a sequence diagram, in the units of its drawing, with the same as a list.
type diagram struct {
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
	laneWidth   = 190
	rowHeight   = 34
	headHeight  = 40
	maxPerFlow  = 40
	maxDiagrams = 3
	maxPause    = 2 * time.Second // within a flow
)

// diagrams draws the last flows, the newest first. A pause between two requests ends a
// flow.
func diagrams(requests []sim.Exchange) []diagram {
	var list []diagram
	for _, flow := range slices.Backward(flows(requests)) {
		if len(list) == maxDiagrams {
			break
		}
		list = append(list, draw(flow))
	}
	return list
}

func flows(requests []sim.Exchange) [][]sim.Exchange {
	var list [][]sim.Exchange
	for i, r := range requests {
		last := len(list) - 1
		if i == 0 || r.Started.Sub(requests[i-1].Started) > maxPause || len(list[last]) == maxPerFlow {
			list = append(list, nil)
			last++
		}
		list[last] = append(list[last], r)
	}
	return list
}

func draw(flow []sim.Exchange) diagram {
	lanes := names(flow)
	d := diagram{
		Title: plural.Count(len(flow), "request") + " from " + flow[0].Started.UTC().Format("15:04:05"),
		Width: laneWidth*len(lanes) + laneWidth/3, Height: headHeight + rowHeight*len(flow) + rowHeight/2,
	}
	for i, name := range lanes {
		d.Lines = append(d.Lines, lifeline{Name: name, X: laneWidth*i + laneWidth/2})
	}
	for i, r := range flow {
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
