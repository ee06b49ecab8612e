package layout

import (
	"context"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// Layout writes devices to Placement. Calls for one host are sequential.
type Layout interface {
	// BeginReport announces the totals of a report for the provider of a host, by resource
	// class.
	BeginReport(provider string, expected map[string]int)
	// EndReport ends a report.
	EndReport(ctx context.Context, provider string) error
	// Add adds a deployable. Made reports whether this call may have created something.
	Add(ctx context.Context, want Want) (made bool, err error)
	// Change applies the difference of a deployable.
	Change(ctx context.Context, c Change) error
	// Remove removes a deployable; a missing one is no error.
	Remove(ctx context.Context, want Want) error
	// Reserve writes the inventory of a deployable for its reserved amount.
	Reserve(ctx context.Context, want Want) error
	// Has reports whether the provider of a host has some of what was written to it; true if nothing was.
	Has(ctx context.Context, provider string) (bool, error)
	// Forget forgets what was written for a deployable that Placement has lost.
	Forget(want Want)
}

// New returns the layout of a name; without a client it does nothing.
func New(name string, client *Client, db *store.Store) Layout {
	switch {
	case client == nil:
		return none{}
	case name == store.LayoutFlat:
		return &flat{client: client, db: db, expected: make(map[string]map[string]int)}
	case name == store.LayoutNested:
		return nested{tree: tree{client: client}, db: db}
	}
	return tree{client: client}
}

// none is the layout without a Placement.
type none struct{}

func (none) BeginReport(string, map[string]int)        {}
func (none) Add(context.Context, Want) (bool, error)   { return false, nil }
func (none) EndReport(context.Context, string) error   { return nil }
func (none) Change(context.Context, Change) error      { return nil }
func (none) Remove(context.Context, Want) error        { return nil }
func (none) Reserve(context.Context, Want) error       { return nil }
func (none) Has(context.Context, string) (bool, error) { return true, nil }
func (none) Forget(Want)                               {}

// tree is one provider for each deployable, below that of the host.
type tree struct {
	none
	client *Client
}

// Add creates a provider and writes its inventory and traits.
func (t tree) Add(ctx context.Context, want Want) (made bool, err error) {
	return t.client.add(ctx, want)
}

// Change writes the difference in upstream's order: inventory or class, then removed traits, then
// added traits.
func (t tree) Change(ctx context.Context, c Change) error {
	p := t.client
	if err := p.ensureClasses(ctx, c.AddClasses...); err != nil {
		return err
	}
	if c.Amount {
		if err := p.putInventory(ctx, existing(c.New.UUID), c.New, ""); err != nil {
			return err
		}
	}
	p.DropClasses(ctx, c.DropClasses...)
	if len(c.Drop) > 0 {
		if err := p.ChangeTraits(ctx, c.New.UUID, nil, c.Drop); err != nil {
			return err
		}
		p.DropTraits(ctx, c.Drop...)
	}
	return p.ChangeTraits(ctx, c.New.UUID, c.Add, nil)
}

// Remove deletes the provider.
func (t tree) Remove(ctx context.Context, want Want) error { return t.client.remove(ctx, want) }

// Reserve replaces the inventory.
func (t tree) Reserve(ctx context.Context, want Want) error {
	return t.client.putInventory(ctx, existing(want.UUID), want, "1.26")
}
