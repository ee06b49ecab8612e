package simcloud

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// SequenceDiagram draws requests as a sequence diagram of Mermaid: who asked whom for
// what, and the answer, with the fault that struck. Identifiers are cut to their first
// eight digits. It is for [Cloud.Requests], or a part of it.
func SequenceDiagram(requests []Request) string {
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
		switch {
		case r.Status == 0:
			fmt.Fprintf(&b, "    %s--x%s: no answer%s\n", to, from, faultNote(r))
		default:
			fmt.Fprintf(&b, "    %s-->>%s: %d%s\n", to, from, r.Status, faultNote(r))
		}
	}
	return b.String()
}

func faultNote(r Request) string {
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
