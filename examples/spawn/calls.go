package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/sim"
)

// call is one request between two services.
type call struct {
	From     string        `json:"from"`
	To       string        `json:"to"`
	What     string        `json:"what"`
	Status   int           `json:"status"`
	Started  time.Time     `json:"started"`
	Duration time.Duration `json:"duration_ns"`
}

// callsOf returns the requests of the flow.
func callsOf(trace []spawn.StepTrace) []call {
	var calls []call
	for _, step := range trace {
		at := step.Started
		for _, r := range step.Requests {
			calls = append(calls, call{
				From: "spawn", To: services[r.Service], What: r.Name, Status: r.Status, Started: at, Duration: r.Duration,
			})
			at = at.Add(r.Duration)
		}
	}
	return calls
}

// callOf is a request that an embedded cloud answered. The User-Agent names its sender.
func callOf(r sim.Exchange) call {
	from := "spawn"
	if strings.HasPrefix(r.From, "cyborg") {
		from = "Cyborg"
	}
	return call{
		From: from, To: services[r.Service], What: r.Method + " " + shortPath(r.Path), Status: r.Status,
		Started: r.Started, Duration: r.Duration,
	}
}

// during returns the calls that began within a step.
func during(calls []call, step spawn.StepTrace) []call {
	end := step.Started.Add(step.Duration)
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.Started.Before(step.Started) || c.Started.After(end) })
}

// services has the names of services by their types.
var services = map[string]string{
	"accelerator": "Cyborg", "placement": "Placement", "identity": "Keystone", "compute": "Nova", "image": "Glance",
}

var uuidInPath = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// shortPath removes the mount point and shortens UUIDs.
func shortPath(path string) string {
	for _, prefix := range []string{"/placement", "/accelerator/v2", "/compute/v2.1", "/identity"} {
		path = strings.TrimPrefix(path, prefix)
	}
	return uuidInPath.ReplaceAllStringFunc(path, func(id string) string { return id[:8] + ".." })
}

// diagram draws the calls of each step as a Mermaid sequence diagram.
func diagram(trace []spawn.StepTrace, calls []call) string {
	names := []string{"spawn"}
	for _, c := range calls {
		names = append(names, c.From, c.To)
	}
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for i, name := range names {
		if slices.Index(names, name) == i {
			fmt.Fprintf(&b, "    participant %s\n", name)
		}
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
