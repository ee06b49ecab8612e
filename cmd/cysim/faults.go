package main

import (
	"fmt"

	"github.com/gocyborg/gocyborg/fault"
)

// maxFaults is the longest file of rules that is read, in bytes.
const maxFaults = 4 << 20

// faultsFlag lets a simulator fail on purpose from its start on.
type faultsFlag struct {
	Faults string `placeholder:"FILE" help:"Fail by these rules, a JSON list as /_sim/faults takes it."`
}

// set gives the rules of the file to a simulator.
func (f faultsFlag) set(faults *fault.Set) error {
	if f.Faults == "" {
		return nil
	}
	data, err := readBounded(f.Faults, maxFaults)
	if err != nil {
		return badInput(fmt.Errorf("--faults: %w", err))
	}
	rules, err := fault.ParseRules(data)
	if err == nil {
		err = faults.Set(rules...)
	}
	if err != nil {
		return badInput(fmt.Errorf("--faults %s: %w", f.Faults, err))
	}
	return nil
}
