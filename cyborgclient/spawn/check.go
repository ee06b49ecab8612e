package spawn

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// Refusal is a call that a service does not allow with a token of the flow.
type Refusal struct {
	// Call is the call, such as "create ARQs".
	Call string
	// Fails lists what fails without it, such as "spawn".
	Fails string
	// Err is the answer. It matches cyborgclient.ErrServiceToken if it is the service
	// token that is missing.
	Err error
}

// String names the call, what fails without it, and the answer.
func (r Refusal) String() string {
	text := fmt.Sprintf("%s (%s): %v", r.Call, r.Fails, r.Err)
	if errors.Is(r.Err, cyborgclient.ErrServiceToken) {
		text += "; give the flow a service user: WithServiceCloud, WithServiceProvider, or send_service_user_token of nova.conf"
	}
	return text
}

// absentID identifies no ARQ, instance, deployable, image or device profile, so a request about it changes nothing.
const absentID = "00000000-0000-4000-8000-676f6379626f"

// Check asks Cyborg and Placement which calls of the flow they refuse to its tokens, in
// the order in which a spawn makes them. It changes nothing: writes are about an
// accelerator request, a deployable and a device profile that do not exist, which every
// release looks for after it has judged the token. Call it when the agent starts, and
// of [Flow.As] to know what a user may do. An agent can do without the calls of a
// [Refusal] whose Fails it never does. The error is for a service that could not be asked.
func (f *Flow) Check(ctx context.Context) ([]Refusal, error) {
	var refusals []Refusal
	for _, probe := range []struct {
		call, fails string
		ask         func(context.Context) error
	}{
		{"read device profiles", "spawn", func(ctx context.Context) error {
			_, err := f.cyborg.ListDeviceProfiles(ctx, cyborgclient.ListDeviceProfilesOpts{Names: []string{absentID}})
			return err
		}},
		{"read and write allocations", "everything", func(ctx context.Context) error {
			_, err := f.placement.Allocation(ctx, absentID)
			return err
		}},
		{"create ARQs", "spawn", func(ctx context.Context) error {
			_, err := f.cyborg.CreateARQs(ctx, cyborgclient.CreateARQsOpts{DeviceProfileName: absentID})
			return unlessUnknown(err)
		}},
		{"bind and unbind ARQs, and delete bound ones", "spawn, delete", func(ctx context.Context) error {
			return unlessUnknown(f.cyborg.UnbindARQs(ctx, []string{absentID}))
		}},
		{"list ARQs", "everything", func(ctx context.Context) error {
			_, err := f.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{Instance: absentID})
			return err
		}},
		{"delete ARQs", "spawn, delete", func(ctx context.Context) error {
			return f.cyborg.DeleteARQs(cyborgclient.WithoutServiceToken(ctx), []string{absentID})
		}},
		{"read deployables", "program, reconcile", func(ctx context.Context) error {
			_, err := f.cyborg.ListDeployables(ctx, cyborgclient.ListDeployablesOpts{Name: absentID})
			return err
		}},
		{"program deployables", "program", func(ctx context.Context) error {
			_, err := f.cyborg.ProgramDeployable(ctx, absentID, absentID)
			return unlessUnknown(err)
		}},
	} {
		err := probe.ask(ctx)
		switch {
		case err == nil:
		case statusOf(err) == http.StatusForbidden:
			refusals = append(refusals, Refusal{probe.call, probe.fails, err})
		default:
			return refusals, fmt.Errorf("spawn: check: %s: %w", probe.call, err)
		}
	}
	return refusals, nil
}

// unlessUnknown returns the error of a write, unless Cyborg itself answered that it does not know what the write is about. The page
// of a proxy does not say so.
func unlessUnknown(err error) error {
	var answer *cyborgclient.APIError
	if errors.As(err, &answer) && answer.Code != "" &&
		(answer.Status == http.StatusNotFound || answer.Status == http.StatusBadRequest || answer.Status == http.StatusInternalServerError) {
		return nil
	}
	return err
}

// statusOf is the status of the error answer of Cyborg or Placement; 0 without one.
func statusOf(err error) int {
	var answer *cyborgclient.APIError
	if errors.As(err, &answer) {
		return answer.Status
	}
	return placement.StatusOf(err)
}
