package main

import (
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// diagram draws the calls of each step as a Mermaid sequence diagram.
func diagram(trace []spawn.StepTrace, calls []call) string {
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for _, name := range participants(calls) {
		fmt.Fprintf(&b, "    participant %s\n", name)
	}
	for _, step := range trace {
		title := strings.TrimSpace(number(step.Step) + " " + step.Step.String())
		fmt.Fprintf(&b, "    Note over spawn: %s: %s\n", title, plain(stepOutcome(step)))
		for _, c := range during(calls, step) {
			fmt.Fprintf(&b, "    %s->>%s: %s\n", c.From, c.To, plain(c.What))
			fmt.Fprintf(&b, "    %s-->>%s: %s\n", c.To, c.From, statusText(c.Status))
		}
	}
	return b.String()
}

func participants(calls []call) []string {
	names := []string{"spawn"}
	seen := map[string]bool{"spawn": true}
	for _, c := range calls {
		for _, name := range []string{c.From, c.To} {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}

// plain removes the syntax of Mermaid.
func plain(text string) string {
	return strings.NewReplacer(";", ",", "#", "", "\n", " ").Replace(text)
}

func statusText(status int) string {
	if status == 0 {
		return "no answer"
	}
	return fmt.Sprint(status)
}

func stepOutcome(step spawn.StepTrace) string {
	if step.Error != "" {
		return "failed"
	}
	return step.Decision
}
