package agent

import (
	"context"
	"errors"
	"slices"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// findParent finds the provider of the host: by its UUID, with the tree below it, or else by its name.
func (r *report) findParent(ctx context.Context, before store.Root) error {
	if before.UUID != "" {
		if err := r.readTree(ctx, before.UUID); err != nil {
			return err
		}
	}
	root, found := r.provider(before.UUID)
	if !found || root.Name != r.name {
		r.tree = nil
		var err error
		if root, err = r.findByName(ctx); err != nil {
			return err
		}
	}
	r.parent = root.UUID
	if root.UUID != before.UUID && !r.c.cfg.Quirks { // upstream looks for the name every time
		r.c.db.Update(nil, func(tx store.Tx) { tx.SetRoot(r.name, store.Root{UUID: root.UUID}) })
	}
	return nil
}

// RootName is the name by which an agent finds the provider of its host.
type RootName string

// The names that releases use; the second since 16.0. With the first and a short name, a provider that nova-compute
// created with the full name is never found: a defect.
const (
	RootByHost RootName = "`[DEFAULT] host`, in each report"
	RootByName RootName = "`[agent] resource_provider_name`, then `[DEFAULT] host`; without one the agent does not start"
)

// looksByHostOnly reports whether the whole name of a host is not looked for.
func (c *Conductor) looksByHostOnly() bool { return c.cfg.RootName == RootByHost }

// findByName finds the provider of the host, by its fallback name while no device is stored under the
// first.
func (r *report) findByName(ctx context.Context) (layout.Provider, error) {
	c := r.c
	known := r.host.Fallback == "" || r.name == r.host.Fallback
	var root layout.Provider
	err := layout.ErrNoParent
	if known || !c.looksByHostOnly() {
		root, err = c.cfg.Placement.Parent(ctx, r.name)
	}
	c.db.View(func(tx store.Tx) {
		for range tx.HostDevices(r.name) {
			known = true
		}
	})
	if !errors.Is(err, layout.ErrNoParent) || known {
		return root, err
	}
	if root, err = c.cfg.Placement.Parent(ctx, r.host.Fallback); err != nil {
		return root, err
	}
	c.db.Update(nil, func(tx store.Tx) { tx.FallBack(r.name) })
	c.setReported(r.host.Fallback, c.reportedAt(r.name))
	r.name = r.host.Fallback
	return root, nil
}

// readTree reads the providers of a tree.
func (r *report) readTree(ctx context.Context, root string) (err error) {
	r.tree, err = r.c.cfg.Placement.List(ctx, "in_tree="+root, "1.14")
	return err
}

// provider finds a provider in the host's tree.
func (r *report) provider(uuid string) (layout.Provider, bool) {
	i := slices.IndexFunc(r.tree, func(p layout.Provider) bool { return p.UUID == uuid })
	if i < 0 {
		return layout.Provider{}, false
	}
	return r.tree[i], true
}

// returnLost creates deployables again that Placement has lost, and reports whether there were any: deleting a
// compute service deletes the provider of its host with the tree below it, and nova-compute recreates only its own
// providers. Upstream's agent does not notice.
func (r *report) returnLost(ctx context.Context, seen discovery, stored []storedDevice) bool {
	if r.c.cfg.Placement == nil || r.c.cfg.Quirks || len(stored) == 0 {
		return false
	}
	if r.tree == nil {
		if err := r.readTree(ctx, r.parent); err != nil {
			r.fail("", "read the providers of the host", err)
			return false
		}
	}
	known, err := r.c.mirror.Forget(ctx, r.name, r.parent, r.tree)
	if err != nil {
		r.fail("", "read what the provider of the host has", err)
		return false
	}
	var lost []lostDeployable
	for _, device := range stored {
		for _, d := range device.deployables {
			if !d.InPlacement() && !seen.gone(device) || d.InPlacement() && !known[d.Provider] {
				lost = append(lost, lostDeployable{device, d})
			}
		}
	}
	if len(lost) > 0 {
		r.alone()
	}
	for _, d := range lost {
		r.c.db.Update(nil, func(tx store.Tx) { d.Deployable = tx.Displace(d.device.Device, d.Deployable, r.parent) })
		if !seen.gone(d.device) {
			r.returnDeployable(ctx, d)
		}
	}
	return len(lost) > 0
}

// lostDeployable is a deployable that Placement does not have.
type lostDeployable struct {
	device storedDevice
	storedDeployable
}

// returnDeployable offers a deployable again. If that fails, its handles are not assigned until a later report
// succeeds.
func (r *report) returnDeployable(ctx context.Context, d lostDeployable) {
	c := r.c
	err := r.put(ctx, r.part(d.device.Device, d.Deployable, d.reported))
	if err == nil {
		c.db.Update(nil, func(tx store.Tx) { tx.SetPresence(d.UUID, store.Offered) })
	}
	r.fail(d.device.key, "put provider "+d.Name+" back", err)
}
