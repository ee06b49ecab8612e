package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// The following is possible only with a simulated cloud.

// requests returns the requests that the cloud's services answered, with the events that its
// Nova forwarded to this program: those have no service.
func requests(cloud *simcloud.Cloud) []sim.Exchange {
	list := cloud.Requests()
	for _, e := range cloud.ReceivedEvents() {
		list = append(list, sim.Exchange{Method: "event", Path: e.Name, Status: e.Code, Started: e.At})
	}
	slices.SortStableFunc(list, func(a, b sim.Exchange) int { return a.Started.Compare(b.Started) })
	return list
}

// inner are the steps that send no request, or wait, as the specification's diagram names them.
var inner = map[spawn.Step]string{
	spawn.StepRequest: "merge the request groups",
	spawn.StepSelect:  "select a candidate",
	spawn.StepMatch:   "match ARQs with providers",
	spawn.StepWait:    "wait for the ARQs",
	spawn.StepCompose: "compose the domain",
}

// writeDiagram draws the requests of the cloud, and between them the inner steps of the flow.
func writeDiagram(cloud *simcloud.Cloud, file string, trace []spawn.StepTrace) error {
	if file == "" {
		return nil
	}
	var steps []simcloud.ClientStep
	for _, step := range trace {
		if text, ok := inner[step.Step]; ok {
			steps = append(steps, simcloud.ClientStep{At: step.Started, Text: text})
		}
	}
	if err := os.WriteFile(file, []byte(cloud.SequenceDiagram(steps...)), 0o644); err != nil {
		return fmt.Errorf("--diagram: %w", err)
	}
	return nil
}

// leaked checks the cloud: the ARQs of its guest must be Bound and in its domain; without a
// guest there must be no resources.
func leaked(cloud *simcloud.Cloud) error {
	var leaks []error
	for _, leak := range cloud.Leaks() {
		leaks = append(leaks, fmt.Errorf("%w: %s", errLeak, leak.Text))
	}
	return errors.Join(leaks...)
}

// explain says why each host is not a candidate.
func explain(cloud *simcloud.Cloud, sysfs, query string) string {
	why, err := cloud.Placement.Explain(query)
	if err != nil {
		return err.Error()
	}
	text := strings.TrimSpace(why.String())
	if sysfs == "" {
		return text
	}
	for _, report := range cloud.Findings() {
		for _, left := range report.LeftOut {
			text += fmt.Sprintf("\ndriver %s leaves out %s: %s", report.Driver, left.Address, left.Reason)
		}
		for _, conflict := range report.Conflicts {
			text += fmt.Sprintf("\ndriver %s: Nova offers %s, too: %s", report.Driver, conflict.Address, conflict.Reason)
		}
		for _, problem := range report.Problems {
			text += fmt.Sprintf("\ndriver %s: %v", report.Driver, problem)
		}
	}
	return text + "\nmore is shown by: cysim discover --sysfs " + sysfs
}
