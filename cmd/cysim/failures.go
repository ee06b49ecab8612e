package main

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/gocyborg/gocyborg/sim"
)

// maxFailures is how many failures may wait to be logged; more are dropped.
const maxFailures = 256

// bindFailure is why a request is BindFailed, of the row of a request.
type bindFailure struct {
	State    string `json:"state"`
	Host     string `json:"hostname"`
	Provider string `json:"device_rp_uuid"`
	Instance string `json:"instance_uuid"`
	Cause    string `json:"failure"`
}

// logFailures logs why binds fail, which Cyborg's API does not tell, until ctx ends.
func logFailures(ctx context.Context, log *slog.Logger, cyborg interface {
	OnCommit(func([]sim.RecordChange))
},
) {
	waiting := make(chan func(), maxFailures) // a commit must not wait for the log
	cyborg.OnCommit(func(changes []sim.RecordChange) {
		for _, change := range changes {
			if change.Kind != "accelerator_request" || change.After == nil {
				continue
			}
			select {
			case waiting <- func() { logFailure(log, change) }:
			default:
			}
		}
	})
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case next := <-waiting:
				next()
			}
		}
	}()
}

// logFailure logs a change of a request if it is a failure, and one that it had not before.
func logFailure(log *slog.Logger, change sim.RecordChange) {
	before, after := failureOf(change.Before), failureOf(change.After)
	if after.Cause != "" && after.Cause != before.Cause {
		log.Warn("an accelerator request failed", "arq", change.ID, "state", after.State, "instance", after.Instance, "host", after.Host,
			"provider", after.Provider, "cause", after.Cause)
	}
}

// failureOf is that of a row, which may be nil.
func failureOf(row any) (f bindFailure) {
	if text, err := json.Marshal(row); err == nil {
		_ = json.Unmarshal(text, &f) // a row has the fields or lacks them
	}
	return f
}
