package main

import (
	"regexp"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
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

// during returns the calls that began within a step.
func during(calls []call, step spawn.StepTrace) []call {
	var within []call
	end := step.Started.Add(step.Duration)
	for _, c := range calls {
		if !c.Started.Before(step.Started) && !c.Started.After(end) {
			within = append(within, c)
		}
	}
	return within
}

// sender names the sender of a request by its User-Agent.
func sender(agent string) string {
	if strings.HasPrefix(agent, "cyborg") {
		return "Cyborg"
	}
	return "spawn"
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
