package main

import (
	"errors"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// Exit statuses; README.md lists them.
const (
	statusOK           = 0
	statusBadInput     = 2
	statusNoCandidates = 3
	statusClaim        = 4
	statusCreate       = 5
	statusBind         = 6
	statusWait         = 7
	statusXML          = 8
	statusLeftBehind   = 9
)

// exitStatus returns the exit status for an error. Leaks take precedence.
func exitStatus(err error) int {
	switch {
	case err == nil:
		return statusOK
	case errors.Is(err, spawn.ErrLeftover), errors.Is(err, errLeak):
		return statusLeftBehind
	}
	var failure *spawn.Error
	if !errors.As(err, &failure) {
		return statusBadInput
	}
	if status, ok := statusOfStep[failure.Step]; ok {
		return status
	}
	return statusBadInput
}

var statusOfStep = map[spawn.Step]int{
	spawn.StepCandidates: statusNoCandidates, spawn.StepSelect: statusNoCandidates,
	spawn.StepClaim: statusClaim, spawn.StepCreate: statusCreate, spawn.StepMatch: statusCreate,
	spawn.StepBind: statusBind, spawn.StepWait: statusWait, spawn.StepCompose: statusXML,
}
