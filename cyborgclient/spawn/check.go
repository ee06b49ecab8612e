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
	// Fails lists what fails without the call, such as "spawn".
	Fails string
	// Err is the error response. It matches cyborgclient.ErrServiceToken if the service token is missing.
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

// Check asks Cyborg and Placement which calls of the flow they refuse to its tokens, in the order in which a spawn
// makes them. It changes nothing: writes name an accelerator request, a deployable and a device profile that do not
// exist, which every release looks up after it has checked the token. Call it when the agent starts, and on the flow
// of [Flow.As] to find out what a user may do. A [Refusal] does not matter to an agent that never does what its Fails
// lists. The error is for a service that could not be asked.
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

// unlessUnknown returns nil if Cyborg itself answered that the resource of a write is unknown, and the error
// otherwise, for example for the error page of a proxy.
func unlessUnknown(err error) error {
	if answer, ok := errors.AsType[*cyborgclient.APIError](err); ok && answer.Code != "" &&
		(answer.Status == http.StatusNotFound || answer.Status == http.StatusBadRequest || answer.Status == http.StatusInternalServerError) {
		return nil
	}
	return err
}

// statusOf returns the status of an error response of Cyborg or Placement, or 0.
func statusOf(err error) int {
	if answer, ok := errors.AsType[*cyborgclient.APIError](err); ok {
		return answer.Status
	}
	return placement.StatusOf(err)
}
