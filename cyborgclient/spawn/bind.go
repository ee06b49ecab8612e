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
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/matching"
)

// CreateARQs is step 6: one POST for each device profile creates all its ARQs. A POST is never repeated. If its
// response is lost, Unwind looks for the ARQs that it created. ARQs that a reschedule kept are used again.
func (a *Attempt) CreateARQs(ctx context.Context) error {
	return a.deviceStep(ctx, StepCreate, a.hasClaim(), StepClaim, func(ctx context.Context) (string, error) {
		if len(a.ARQs) > 0 {
			return count(len(a.ARQs), "ARQ") + " kept", nil
		}
		for _, lost := range a.journal.Effects(ledger.Create) {
			if lost.State == ledger.Unknown && errors.Is(lost.Err, cyborgclient.ErrReplyLost) {
				return "", fmt.Errorf("%w: the reply of the create was lost; Unwind looks for its ARQs", ErrOrder)
			}
		}
		if err := a.createSpares(ctx); err != nil {
			return "", err
		}
		for _, from := range a.sources() {
			arqs, err := a.createOf(ctx, from)
			a.addARQs(arqs, from)
			if err != nil {
				return "", err
			}
		}
		return count(len(a.ARQs), "ARQ"), nil
	})
}

// createOf creates the ARQs of one profile.
func (a *Attempt) createOf(ctx context.Context, from source) (arqs []cyborgclient.ARQ, err error) {
	create := &ledger.Effect{Kind: ledger.Create, ID: from.profile.Name, Origin: &ledger.Origin{
		Project: a.flow.cyborg.owner().ProjectID, Missing: max(1, arqCount(from.profile)), Began: time.Now(),
	}}
	opts := cyborgclient.CreateARQsOpts{DeviceProfileName: from.profile.Name}
	if hasRegions(from.profile) {
		opts.ImageUUID = a.Request.Image
	}
	err = a.journal.Do(ctx, create, func(ctx context.Context) error {
		arqs, err = a.flow.cyborg.CreateARQs(ctx, opts)
		for _, arq := range arqs {
			a.journal.Adopt(&ledger.Effect{Kind: ledger.ARQ, ID: arq.UUID, ARQ: &arq})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	a.journal.Settle(create, ledger.Undone, nil) // its ARQs are known
	switch {
	case len(arqs) == 0:
		return nil, fmt.Errorf("device profile %s: no accelerator requests were created", from.profile.Name)
	case len(arqs) > 1 && from.ofPort():
		return arqs, fmt.Errorf("port %s: the port does not support multiple devices", from.port.UUID)
	}
	return arqs, nil
}

func (a *Attempt) addARQs(arqs []cyborgclient.ARQ, from source) {
	a.ARQs = append(slices.Clip(a.ARQs), arqs...)
	for _, arq := range arqs {
		if from.ofPort() {
			a.PortOf[arq.UUID] = from.port.UUID
		}
	}
}

// spares are extra ARQs that are sent first in the PATCH of a bind next to ARQs that Cyborg cannot delete. They are
// not among the ARQs of the instance.
func (a *Attempt) spares() []*ledger.Effect {
	return slices.DeleteFunc(a.journal.Effects(ledger.ARQ), func(e *ledger.Effect) bool {
		return e.State != ledger.Done || slices.Contains(uuidsOf(a.ARQs), e.ID)
	})
}

// createSpares creates spares, if the bind needs them.
func (a *Attempt) createSpares(ctx context.Context) (err error) {
	if len(a.stuck()) > 0 && len(a.spares()) == 0 {
		_, err = a.createOf(ctx, a.sources()[0])
	}
	return err
}

// deleteSpares deletes the spares of a bind that Cyborg has accepted.
func (a *Attempt) deleteSpares(ctx context.Context) {
	spares := a.spares()
	if len(spares) == 0 {
		return
	}
	ctx, cancel := a.flow.detached(ctx)
	defer cancel()
	r := a.remover()
	r.undo(ctx, func(e *ledger.Effect) bool { return slices.Contains(spares, e) })
}

// readHanded adds the ARQs that the caller has set to the journal, and notes ARQs of the instance that are not part
// of the handover.
func (a *Attempt) readHanded(ctx context.Context) {
	a.adoptHanded()
	if !slices.ContainsFunc(a.journal.Effects(ledger.ARQ), func(e *ledger.Effect) bool { return e.Guard == ledger.Handed }) {
		return
	}
	listed, _ := a.flow.instanceARQs(ctx, a.Request.Instance) // with a service token Cyborg may show them by instance only
	a.remover().see(listed)
	a.nameForgotten(listed)
}

// adoptHanded adds the ARQs that the caller has set, created by another client, to the journal.
func (a *Attempt) adoptHanded() {
	for _, arq := range a.ARQs {
		if a.journal.Find(ledger.ARQ, arq.UUID) == nil {
			a.journal.Adopt(&ledger.Effect{Kind: ledger.ARQ, ID: arq.UUID, ARQ: &arq, Guard: ledger.Handed})
		}
	}
}

// Match is step 7: it matches each ARQ with the provider of its group. It verifies counts and group indices, so a
// profile that was changed in the meantime is an error and not a guest with too few devices.
func (a *Attempt) Match(ctx context.Context) error {
	return a.deviceStep(ctx, StepMatch, len(a.ARQs) > 0, StepCreate, func(context.Context) (string, error) {
		if err := a.match(); err != nil {
			return "", err
		}
		return count(len(a.Bindings), "ARQ") + " on " + count(len(a.boundProviders()), "provider"), nil
	})
}

// match sets the bindings of the ARQs to the providers of the chosen candidate.
func (a *Attempt) match() error {
	a.Bindings = nil
	for _, from := range a.sources() {
		bindings, err := matching.Matches(from.profile, from.mappings(a.Chosen.Mappings), a.matchingARQs(from))
		if err != nil {
			return fmt.Errorf("device profile %s: %w", from.profile.Name, err)
		}
		a.Bindings = append(a.Bindings, bindings...)
	}
	return nil
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

// Bind is step 8: it registers for the events, then binds all ARQs of the instance in one PATCH, because Cyborg
// refuses a second one. If Nova refused Cyborg's event, the PATCH fails with 400 although the ARQs may be bound;
// their states decide.
func (a *Attempt) Bind(ctx context.Context) error {
	return a.deviceStep(ctx, StepBind, len(a.Bindings) > 0, StepMatch, func(ctx context.Context) (string, error) {
		if err := a.prepareEvents(); err != nil {
			return "", err
		}
		err := a.sendBindings(ctx)
		a.bound = time.Now()
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
			a.noteBroken(err)
			return "", fmt.Errorf("host %s: %w", a.Host, a.withOverclaim(ctx, a.withOwnersOfBind(ctx, err)))
		}
		a.deleteSpares(ctx)
		return decision, nil
	})
}

// sendBindings sends the PATCH. Cyborg sets the project of the ARQs to the project of its token; with an admin's
// token the request moves them to the project of the instance. A project is named only in that case: it requires
// microversion 2.1, and a Cyborg since 2025 refuses it from a member, even the member's own project. If project and
// role of the token are unknown, because the caller has set it, the project is read from the ARQs.
func (a *Attempt) sendBindings(ctx context.Context) error {
	made := a.flow.cyborg.owner().ProjectID
	for _, arq := range a.ARQs {
		made = cmp.Or(arq.ProjectID, made)
	}
	bindings := make([]cyborgclient.Binding, len(a.Bindings))
	for i, b := range a.Bindings {
		bindings[i] = cyborgclient.Binding{ARQ: b.ARQ, Host: a.Host, DeviceRP: b.DeviceRP, Instance: a.Request.Instance}
		if made != "" && made != a.Request.ProjectID {
			bindings[i].Project = a.Request.ProjectID
		}
	}
	a.adoptHanded()
	if err := a.createSpares(ctx); err != nil { // the agent has created the ARQs itself
		return err
	}
	return a.journal.Do(ctx, &ledger.Effect{Kind: ledger.Binding, ID: a.Request.Instance}, func(ctx context.Context) error {
		return a.bind(ctx, bindings)
	})
}

// bind sends the bindings, also for an instance that still has ARQs which Cyborg cannot delete.
func (a *Attempt) bind(ctx context.Context, bindings []cyborgclient.Binding) error {
	stuck := a.stuck()
	if len(stuck) == 0 {
		return a.flow.cyborg.BindARQs(ctx, bindings)
	}
	err := a.flow.cyborg.BindAdditionalARQs(ctx, bindings, a.spares()[0].ID)
	if err != nil {
		err = fmt.Errorf("next to ARQ %s on host %s, which could not be deleted: %w", stuck[0].ID, stuck[0].ARQ.Hostname, err)
	}
	return err
}

// prepareEvents registers for the events before the PATCH, because Cyborg sends them before its response.
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
