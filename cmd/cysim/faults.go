package main

import (
	"fmt"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/fault"
)

// maxFaults limits the size of a file of rules, in bytes.
const maxFaults = 4 << 20

// faultsFlag sets fault rules at the start.
type faultsFlag struct {
	Faults string `placeholder:"FILE" help:"Fault rules, a JSON list as /_sim/faults takes it."`
}

// newSet is a set of the rules of the file for a service's operations.
func (f faultsFlag) newSet(seed uint64, operations []string) (*fault.Set, error) {
	faults := fault.NewSet(operations...)
	faults.Seed(seed)
	return faults, f.set(faults)
}

// set puts the rules of the file into a set.
func (f faultsFlag) set(faults *fault.Set) error {
	if f.Faults == "" {
		return nil
	}
	rules, err := command.ParseFile("faults", f.Faults, maxFaults, fault.ParseRules)
	if err != nil {
		return err
	}
	if err := faults.Set(rules...); err != nil {
		return command.BadInput(fmt.Errorf("--faults %s: %w", f.Faults, err))
	}
	return nil
}
