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

// What follows only a simulated cloud can tell.

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

func writeDiagram(cloud *simcloud.Cloud, file string) error {
	if file == "" {
		return nil
	}
	if err := os.WriteFile(file, []byte(cloud.SequenceDiagram()), 0o644); err != nil {
		return fmt.Errorf("--diagram: %w", err)
	}
	return nil
}

// define registers the started guest and checks for leaks: the ARQs of a guest must be Bound
// and in its domain; without a guest there must be no resources.
func define(cloud *simcloud.Cloud, result *spawn.Result) error {
	if result != nil {
		guest := sim.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)}
		if err := cloud.DefineGuest(guest); err != nil {
			return err
		}
	}
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
		for _, problem := range report.Problems {
			text += fmt.Sprintf("\ndriver %s: %v", report.Driver, problem)
		}
	}
	return text + "\nmore is shown by: cysim discover --sysfs " + sysfs
}
