package simcloud

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/sim"
)

// SequenceDiagram draws requests as a sequence diagram of Mermaid: who asked whom for
// what, what that changed, and the answer, with the fault that struck. Identifiers are cut
// to their first eight digits, and of many changes only the first are told. It is for
// [Cloud.Requests], or a part of it.
func SequenceDiagram(requests []sim.Exchange) string {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	var known []string
	for _, r := range requests {
		for _, name := range []string{speaker(r.From), addressee(r.Service)} {
			if !slices.Contains(known, name) {
				known = append(known, name)
				fmt.Fprintf(&b, "    participant %s\n", name)
			}
		}
	}
	for _, r := range requests {
		from, to := speaker(r.From), addressee(r.Service)
		fmt.Fprintf(&b, "    %s->>%s: %s %s\n", from, to, r.Method, mermaidText(short(r.Path)))
		for _, line := range changeLines(r) {
			fmt.Fprintf(&b, "    Note over %s: %s\n", to, mermaidText(line))
		}
		switch {
		case r.Status == 0:
			fmt.Fprintf(&b, "    %s--x%s: no answer%s\n", to, from, faultNote(r))
		default:
			fmt.Fprintf(&b, "    %s-->>%s: %d%s\n", to, from, r.Status, faultNote(r))
		}
	}
	return b.String()
}

// Limits of what a drawing tells of changes.
const (
	shownChanges  = 4
	shownOfChange = 100 // characters
)

// changeLines tells shortly what a request changed.
func changeLines(r sim.Exchange) []string {
	var lines []string
	for i, c := range r.Changes {
		if i == shownChanges {
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
		if runes := []rune(line); len(runes) > shownOfChange {
			line = string(runes[:shownOfChange-1]) + "…"
		}
		lines = append(lines, line)
	}
	return lines
}

func faultNote(r sim.Exchange) string {
	if r.Fault == "" {
		return ""
	}
	return ", fault " + mermaidText(r.Fault)
}

// mermaidText takes out what Mermaid reads as syntax.
func mermaidText(text string) string {
	return strings.NewReplacer(";", ",", "#", "", "\n", " ", "\r", " ").Replace(text)
}

// getDiagram answers the last requests as a diagram.
func (c *Cloud) getDiagram(w http.ResponseWriter, _ *http.Request) {
	requests := c.Requests()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(SequenceDiagram(requests[max(0, len(requests)-shownRequests):]))) // the reader may be gone
}
