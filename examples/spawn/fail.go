package main

import (
	"fmt"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// step is the value of --fail: a step that the embedded cloud can make fail.
type step string

// The steps that fail without a rule for a request.
const (
	failWait  step = "wait"  // the devices are not bound in time
	failStart step = "start" // the guest does not start
)

// failures are the faults of the other steps, on every host. The claim is applied and its
// reply is lost; a create that is refused is tried on no other host.
var failures = map[step]fault.Rule{
	"profile":    {Operation: fault.DeviceProfileList, Action: fault.Status, Status: 500, Times: -1},
	"candidates": {Operation: fault.AllocationCandidatesList, Action: fault.Status, Status: 500, Times: -1},
	"claim":      {Operation: fault.AllocationsPut, When: fault.After, Action: fault.Drop},
	"create":     {Operation: fault.ARQCreate, Action: fault.Status, Status: 400},
	"bind":       {Operation: fault.ARQBind, Action: fault.Status, Status: 500, Times: -1},
}

// Validate implements kong's Validatable.
func (s step) Validate() error {
	if _, ok := failures[s]; ok || s == "" || s == failWait || s == failStart {
		return nil
	}
	return fmt.Errorf("no fault of the cloud makes the step %q fail: want profile, candidates, claim, create, bind, wait or start", string(s))
}

// inject sets the fault of a step.
func (s step) inject(cloud *simcloud.Cloud) error {
	rule, ok := failures[s]
	if !ok {
		return nil
	}
	return cloud.Faults().Set(rule)
}
