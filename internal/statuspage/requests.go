package statuspage

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/internal/terminal"
	"github.com/gocyborg/gocyborg/sim"
)

// participants are the services in diagrams, each with the path that it is mounted at.
var participants = map[string]struct{ name, mount string }{
	"accelerator": {"Cyborg", "/accelerator/v2"},
	"placement":   {"Placement", "/placement"},
	"identity":    {"Keystone", "/identity/v3"},
	"compute":     {"Nova", "/compute/v2.1"},
	"image":       {"Glance", "/image"},
}

// client is the sender of a request that no service sent.
const client = "client"

// sender names the sender of a request by its User-Agent.
func sender(r sim.Exchange) string {
	if strings.HasPrefix(r.From, "cyborg") {
		return "Cyborg"
	}
	return client
}

// receiver names the service of a request.
func receiver(r sim.Exchange) string {
	if p, ok := participants[r.Service]; ok {
		return p.name
	}
	return r.Service
}

// names lists the senders and receivers, in order of appearance.
func names(requests []sim.Exchange) []string {
	var list []string
	for _, r := range requests {
		for _, name := range []string{sender(r), receiver(r)} {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

// label is the method and the path, without the mount point of the service.
func label(r sim.Exchange) string {
	return r.Method + " " + shortIDs(strings.TrimPrefix(r.Path, participants[r.Service].mount))
}

// answer is the status, with the fault that acted.
func answer(r sim.Exchange) string {
	text := fmt.Sprint(r.Status)
	if r.Status == 0 {
		text = "no answer"
	}
	if r.Fault != "" {
		text += ", fault " + r.Fault
	}
	return text
}

// Limits of the changes of a request in a drawing.
const (
	maxChanges    = 4
	maxChangeText = 100 // characters
)

// changes describes what a request changed, one line each.
func changes(r sim.Exchange) []string {
	var lines []string
	for i, c := range r.Changes {
		if i == maxChanges {
			lines = append(lines, fmt.Sprintf("and %d more changes", len(r.Changes)-i))
			break
		}
		line := c.Action + " " + c.Kind
		if c.ID != "" {
			line += " " + c.ID
		}
		if c.What != "" {
			line += ": " + c.What
		}
		line = shortIDs(line)
		if runes := []rune(line); len(runes) > maxChangeText {
			line = string(runes[:maxChangeText-1]) + "…"
		}
		lines = append(lines, line)
	}
	return lines
}

const uuidPattern = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

var uuids = regexp.MustCompile(uuidPattern)

// shortIDs cuts each UUID to its first eight digits.
func shortIDs(text string) string {
	return uuids.ReplaceAllStringFunc(text, func(id string) string { return id[:8] + "…" })
}

// Step is something that a client did on its own.
type Step struct {
	At   time.Time
	Text string
}

// Mermaid draws requests as a sequence diagram of Mermaid: sender, receiver, path, changes
// and answer of each. The steps of the client, in order, are messages to itself between
// them. Without requests it has only its first line.
func Mermaid(requests []sim.Exchange, steps ...Step) string {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for _, name := range names(requests) {
		fmt.Fprintf(&b, "    participant %s\n", name)
	}
	drawSteps := func(steps []Step) {
		for _, step := range steps {
			fmt.Fprintf(&b, "    %[1]s->>%[1]s: %[2]s\n", client, mermaidText(step.Text))
		}
	}
	for _, r := range requests {
		n := slices.IndexFunc(steps, func(s Step) bool { return s.At.After(r.Started) })
		if n < 0 {
			n = len(steps)
		}
		drawSteps(steps[:n])
		steps = steps[n:]
		from, to := sender(r), receiver(r)
		fmt.Fprintf(&b, "    %s->>%s: %s\n", from, to, mermaidText(label(r)))
		for _, line := range changes(r) {
			fmt.Fprintf(&b, "    Note over %s: %s\n", to, mermaidText(line))
		}
		arrow := "-->>"
		if r.Status == 0 {
			arrow = "--x"
		}
		fmt.Fprintf(&b, "    %s%s%s: %s\n", to, arrow, from, mermaidText(answer(r)))
	}
	drawSteps(steps)
	return b.String()
}

// mermaidText removes the syntax of Mermaid, and what acts on a terminal.
func mermaidText(text string) string {
	return terminal.Line(strings.NewReplacer(";", ",", "#", "", "\n", " ", "\r", " ").Replace(text))
}
