package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/matching"
)

// CreateARQs is step 6: one POST for each device profile creates all its ARQs. A
// POST is never repeated; when its reply is lost, the unwinding looks for the ARQs
// that it created. ARQs that a reschedule kept are used again.
func (a *Attempt) CreateARQs(ctx context.Context) error {
	return a.deviceStep(ctx, StepCreate, a.claimed, StepClaim, func(ctx context.Context) (string, error) {
		switch {
		case len(a.ARQs) > 0:
			return count(len(a.ARQs), "ARQ") + " kept", nil
		case a.create.lost && !a.create.sought:
			return "", fmt.Errorf("%w: the reply of the create was lost; Unwind looks for its ARQs", ErrOrder)
		}
		if err := a.createSpares(ctx); err != nil {
			return "", err
		}
		for _, from := range a.sources() {
			if err := a.createOf(ctx, from); err != nil {
				return "", err
			}
		}
		return count(len(a.ARQs), "ARQ"), nil
	})
}

// createOf creates the ARQs of one profile.
func (a *Attempt) createOf(ctx context.Context, from source) error {
	ticket := a.flow.arqs.beginCreate()
	defer a.flow.arqs.endCreate(ticket)
	a.create = createState{ // also if the client panics
		ticket: ticket, lost: true, began: time.Now(), from: from, missing: max(1, arqCount(from.profile)),
	}
	opts := cyborgclient.CreateARQsOpts{DeviceProfileName: from.profile.Name}
	if hasRegions(from.profile) {
		opts.ImageUUID = a.Request.Image
	}
	arqs, err := a.flow.cyborg.CreateARQs(ctx, opts)
	a.create.lost = errors.Is(err, cyborgclient.ErrReplyLost)
	if err != nil {
		return err
	}
	a.holdARQs(arqs, from)
	if len(arqs) > 0 {
		a.create.project = arqs[0].ProjectID
	}
	switch {
	case len(arqs) == 0:
		return fmt.Errorf("device profile %s: no accelerator requests were created", from.profile.Name)
	case len(arqs) > 1 && from.ofPort():
		return fmt.Errorf("port %s: the port does not support multiple devices", from.port.UUID)
	}
	return nil
}

// holdARQs adds the ARQs of an answer to those of the attempt.
func (a *Attempt) holdARQs(arqs []cyborgclient.ARQ, from source) {
	a.addARQs(arqs, from)
	a.flow.arqs.add(uuidsOf(arqs)...)
}

func (a *Attempt) addARQs(arqs []cyborgclient.ARQ, from source) {
	a.ARQs = append(slices.Clip(a.ARQs), arqs...)
	for _, arq := range arqs {
		a.ours[arq.UUID] = true
		if from.ofPort() {
			a.PortOf[arq.UUID] = from.port.UUID
		}
	}
}

// Match is step 7: each ARQ is matched with the provider of its group. Counts and
// group indices are verified, so that a profile that changed meanwhile is an error
// and not a guest with too few devices.
func (a *Attempt) Match(ctx context.Context) error {
	return a.deviceStep(ctx, StepMatch, len(a.ARQs) > 0, StepCreate, func(context.Context) (string, error) {
		a.Bindings = nil
		for _, from := range a.sources() {
			bindings, err := matching.Matches(from.profile, from.mappings(a.Chosen.Mappings), a.matchingARQs(from))
			if err != nil {
				return "", fmt.Errorf("device profile %s: %w", from.profile.Name, err)
			}
			a.Bindings = append(a.Bindings, bindings...)
		}
		providers := map[string]bool{}
		for _, binding := range a.Bindings {
			providers[binding.DeviceRP] = true
		}
		return count(len(a.Bindings), "ARQ") + " on " + count(len(providers), "provider"), nil
	})
}

// matchingARQs returns the ARQs of one profile.
func (a *Attempt) matchingARQs(from source) []matching.Unmatched {
	var arqs []matching.Unmatched
	for _, arq := range a.ARQs {
		if a.PortOf[arq.UUID] == from.port.UUID {
			arqs = append(arqs, MatchingOf(arq))
		}
	}
	return arqs
}

// Bind is step 8: it registers for the events, then binds all ARQs of the instance
// in one PATCH, because Cyborg refuses a second one. When Nova refused Cyborg's
// event, the PATCH is answered 400 although the ARQs may be bound; their states decide.
func (a *Attempt) Bind(ctx context.Context) error {
	return a.deviceStep(ctx, StepBind, len(a.Bindings) > 0, StepMatch, func(ctx context.Context) (string, error) {
		if err := a.prepareEvents(); err != nil {
			return "", err
		}
		err := a.sendBindings(ctx)
		a.bound = time.Now()
		a.bindLost = errors.Is(err, cyborgclient.ErrReplyLost) && !a.bindHasEnded(ctx)
		decision := count(len(a.Bindings), "ARQ") + " to host " + a.Host
		if errors.Is(err, cyborgclient.ErrEventRefused) {
			decision += "; Nova refused the event, Cyborg shows all Bound"
			if _, notBound := a.await(ctx, stateTimeout); notBound != nil {
				err = fmt.Errorf("%w: %w", err, notBound)
			} else {
				err = nil
			}
		}
		if err != nil {
			return "", fmt.Errorf("host %s: %w", a.Host, a.withOverclaim(ctx, a.withOwnersOfBind(ctx, err)))
		}
		a.deleteSpares(ctx)
		return decision, nil
	})
}

// bindHasEnded reports, for a bind whose outcome its reply does not tell, that Cyborg shows an ARQ BindFailed, where it ends, or
// all of them Bound. It is needed only to bind the ARQs again.
func (a *Attempt) bindHasEnded(ctx context.Context) bool {
	if !a.flow.config.Compat.Rebind {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	arqs, err := a.flow.cyborg.listARQs(ctx, cyborgclient.ListARQsOpts{Instance: a.Request.Instance})
	if err != nil {
		return false
	}
	own, _ := inOrder(arqs, uuidsOf(a.ARQs))
	bound := 0
	for _, arq := range own {
		switch arq.State {
		case cyborgclient.StateBindFailed:
			return true
		case cyborgclient.StateBound:
			bound++
		}
	}
	return bound == len(own)
}

// sendBindings sends the PATCH. Cyborg gives the ARQs to the project of its token; an admin's token moves
// them to the project of the instance. Only then a project is named, which needs microversion 2.1: a Cyborg
// since 2025 refuses it of a member, also his own. Of a token whose project and role are unknown,
// because the caller has set it, the ARQs tell the project.
func (a *Attempt) sendBindings(ctx context.Context) error {
	made := cmp.Or(a.create.project, a.flow.cyborg.owner().ProjectID)
	bindings := make([]cyborgclient.Binding, len(a.Bindings))
	for i, b := range a.Bindings {
		bindings[i] = cyborgclient.Binding{ARQ: b.ARQ, Host: a.Host, DeviceRP: b.DeviceRP, Instance: a.Request.Instance}
		if made != "" && made != a.Request.ProjectID {
			bindings[i].Project = a.Request.ProjectID
		}
	}
	return a.bind(ctx, bindings)
}

// prepareEvents registers the events before the PATCH, because Cyborg sends them
// before its answer.
func (a *Attempt) prepareEvents() error {
	if a.flow.events == nil || a.waiter != nil {
		return nil
	}
	expected := make([]externalevent.Expected, len(a.ARQs))
	for i, arq := range a.ARQs {
		expected[i] = externalevent.Expected{ARQ: arq.UUID, DeviceProfile: arq.DeviceProfileName}
	}
	waiter, err := a.flow.events.PrepareExpected(a.Request.Instance, expected...)
	if err != nil {
		return fmt.Errorf("register for events: %w", err)
	}
	a.waiter = waiter
	return nil
}
