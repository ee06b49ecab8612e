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
	return statusOfStep(failure.Step)
}

func statusOfStep(step spawn.Step) int {
	switch step {
	case spawn.StepCandidates, spawn.StepSelect:
		return statusNoCandidates
	case spawn.StepClaim:
		return statusClaim
	case spawn.StepCreate, spawn.StepMatch:
		return statusCreate
	case spawn.StepBind:
		return statusBind
	case spawn.StepWait:
		return statusWait
	case spawn.StepCompose:
		return statusXML
	}
	return statusBadInput
}
