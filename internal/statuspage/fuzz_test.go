package statuspage_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gocyborg/gocyborg/internal/statuspage"
	"github.com/gocyborg/gocyborg/sim"
)

// Whatever clients send, the diagram is one of Mermaid: each line is a participant, an arrow between participants
// or a note over one, with a text that ends with the line.
func FuzzMermaid(f *testing.F) {
	services := []string{"identity", "placement", "accelerator", "compute", "image"}
	for _, seed := range [][]string{
		{"gophercloud/v2", "POST", "/identity/v3/auth/tokens", "", "token", "of user demo; #1"},
		{"cyborg-conductor keystoneauth1", "PATCH", "/accelerator/v2/accelerator_requests/2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001", "drop", "accelerator_request", "state Initial -> Bound"},
		{"x", "GET", "/placement/a\nNote over client: b", "status", "trait", "\x1b[2J\u2028\u202e"},
		{"x", "GET", "/placement/\xff\xfe", "", "end", "%%{init: {}}%%"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4], seed[5], 204, byte(1))
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4], seed[5], 0, byte(2))
	}
	line := regexp.MustCompile(`^    (participant \w+|(\w+)(?:->>|-->>|--x)(\w+): ([^#;]+)|Note over (\w+): ([^#;]+))$`)
	f.Fuzz(func(t *testing.T, from, method, path, fault, kind, what string, status int, number byte) {
		r := sim.Exchange{
			Service: services[int(number)%len(services)], From: from, Method: method, Path: path, Fault: fault, Status: status,
			Changes: []sim.Change{{Action: sim.Created, Kind: kind, What: what}, {Action: sim.Deleted, Kind: kind, ID: path}},
		}
		text := statuspage.Mermaid([]sim.Exchange{r, r})
		acts := func(r rune) bool {
			return r != '\n' && unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
		}
		if !utf8.ValidString(text) || strings.ContainsFunc(text, acts) {
			t.Errorf("not plain text: %q", text)
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		participants := make(map[string]bool)
		arrows, notes := 0, 0
		for _, l := range lines[1:] {
			match := line.FindStringSubmatch(l)
			if match == nil {
				t.Fatalf("%q is no line of a diagram", l)
			}
			switch {
			case match[2] != "":
				if arrows++; !participants[match[2]] || !participants[match[3]] {
					t.Errorf("%q is between unknown participants", l)
				}
			case match[5] != "":
				notes++
			default:
				participants[strings.Fields(l)[1]] = true
			}
		}
		if lines[0] != "sequenceDiagram" || arrows != 4 || notes != 4 {
			t.Errorf("%d arrows and %d notes, want 4 and 4: %s", arrows, notes, text)
		}
	})
}
