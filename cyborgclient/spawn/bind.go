package spawn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/matching"
)

// CreateARQs is step 6: one POST makes all ARQs of the profile. The POST is
// never repeated; when its reply is lost, the unwinding looks for what it made.
func (a *Attempt) CreateARQs(ctx context.Context) error {
	return a.step(ctx, StepCreate, func(ctx context.Context, _ *StepTrace) (string, error) {
		if a.Profile == nil {
			return "no device profile, no ARQs", nil
		}
		if err := a.needs(a.claim.certain, StepClaim); err != nil {
			return "", err
		}
		a.create = createState{lost: true, began: time.Now()} // until the answer is here, whatever happens
		arqs, err := a.flow.cyborg.CreateARQs(ctx, cyborgclient.CreateARQsOpts{DeviceProfileName: a.Profile.Name})
		a.create.lost = errors.Is(err, cyborgclient.ErrReplyLost)
		if err != nil {
			return "", fmt.Errorf("device profile %s: %w", a.Profile.Name, err)
		}
		a.ARQs = arqs
		a.flow.hold(a.arqUUIDs())
		if len(arqs) == 0 {
			return "", fmt.Errorf("device profile %s: Cyborg created no accelerator requests", a.Profile.Name)
		}
		return count(len(arqs), "ARQ"), nil
	})
}

// Match is step 7: each ARQ is matched with the provider of its group; counts
// and group indices are verified, so that a profile that changed meanwhile is
// an error and not a guest with too few devices.
func (a *Attempt) Match(ctx context.Context) error {
	return a.step(ctx, StepMatch, func(context.Context, *StepTrace) (string, error) {
		if a.Profile == nil {
			return "nothing to match", nil
		}
		if err := a.needs(len(a.ARQs) > 0, StepCreate); err != nil {
			return "", err
		}
		arqs := make([]matching.ARQ, len(a.ARQs))
		for i, arq := range a.ARQs {
			arqs[i] = matching.ARQ{UUID: arq.UUID, Group: arq.DeviceProfileGroupID, DeviceProfileName: arq.DeviceProfileName}
		}
		bindings, err := matching.Bindings(*a.Profile, a.Chosen.Mappings, arqs)
		if err != nil {
			return "", fmt.Errorf("device profile %s: %w", a.Profile.Name, err)
		}
		a.Bindings = bindings
		providers := map[string]bool{}
		for _, binding := range bindings {
			providers[binding.DeviceRP] = true
		}
		return count(len(bindings), "ARQ") + " on " + count(len(providers), "provider"), nil
	})
}

// Bind is step 8: it registers for the events, then binds all ARQs of the
// instance in one PATCH, because Cyborg refuses a second one. When Nova
// refused Cyborg's event the PATCH is answered 400 although the ARQs are
// bound; a GET settles that.
func (a *Attempt) Bind(ctx context.Context) error {
	return a.step(ctx, StepBind, func(ctx context.Context, _ *StepTrace) (string, error) {
		if a.Profile == nil {
			return "nothing to bind", nil
		}
		if err := a.needs(len(a.Bindings) > 0, StepMatch); err != nil {
			return "", err
		}
		if err := a.prepare(); err != nil {
			return "", err
		}
		err := a.flow.cyborg.BindARQs(ctx, a.wireBindings())
		a.bound = time.Now()
		if err == nil {
			return count(len(a.Bindings), "ARQ") + " to host " + a.Host, nil
		}
		err = fmt.Errorf("instance %s on host %s: %w", a.Request.Instance, a.Host, err)
		if settled := a.settle(ctx, err); settled != "" {
			return settled, nil
		}
		return "", err
	})
}

// prepare registers the events before the PATCH: Cyborg sends them inside it.
func (a *Attempt) prepare() error {
	if a.flow.events == nil || a.waiter != nil {
		return nil
	}
	waiter, err := a.flow.events.Prepare(a.Request.Instance, a.arqUUIDs()...)
	if err != nil {
		return fmt.Errorf("instance %s: register for events: %w", a.Request.Instance, err)
	}
	a.waiter = waiter
	return nil
}

func (a *Attempt) wireBindings() []cyborgclient.Binding {
	bindings := make([]cyborgclient.Binding, len(a.Bindings))
	for i, b := range a.Bindings {
		bindings[i] = cyborgclient.Binding{ARQ: b.ARQ, Host: a.Host, DeviceRP: b.DeviceRP, Instance: a.Request.Instance}
	}
	return bindings
}

// settle asks Cyborg whether a bind that was answered with the refusal of
// Nova's API is done all the same.
func (a *Attempt) settle(ctx context.Context, cause error) string {
	if !errors.Is(cause, cyborgclient.ErrEventRefused) {
		return ""
	}
	if err := a.refresh(ctx); err != nil || len(a.unbound()) > 0 {
		return ""
	}
	return count(len(a.ARQs), "ARQ") + " to host " + a.Host + "; Nova refused the event, a GET showed all Bound"
}
