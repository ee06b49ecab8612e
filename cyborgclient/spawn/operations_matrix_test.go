package spawn_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// cell is a cloud of the table: which Cyborg, which device, and whether its agent runs.
type cell struct {
	states, async, quirks bool
	profile               string
	dead                  bool
}

func (c cell) String() string {
	return fmt.Sprintf("%s states=%t async=%t quirks=%t dead=%t", c.profile, c.states, c.async, c.quirks, c.dead)
}

func cells() (list []cell) {
	for _, profile := range []string{"own-function", "gpu", "vgpu", "mixed"} {
		for n := range 16 {
			c := cell{profile: profile, states: n&1 > 0, async: n&2 > 0, dead: n&4 > 0, quirks: n&8 > 0}
			if c.states && c.quirks {
				continue // no released Cyborg has them
			}
			if c.quirks && profile == "own-function" {
				c.profile = "fpga" // upstream cannot name the trait of the function
			}
			list = append(list, c)
		}
	}
	return list
}

func (c cell) model() *simcloud.Model {
	model := imageModel("accel:bitstream_id", imageCrypto)
	model.Cyborg.UseImageUUID = false
	model.Cyborg.BindingStates, model.Cyborg.AsyncBind, model.Cyborg.UpstreamQuirks = c.states, c.async, c.quirks
	return model
}

// row is an operation of the table.
type row struct {
	name string
	// before prepares the instance, after it was spawned.
	before func(ctx context.Context, s *site, i *spawn.Instance) error
	// lost is set if the host is down, and not just its agent.
	lost bool
	// reboot is set if the host has lost its power.
	reboot bool
	run    func(ctx context.Context, s *site, i *spawn.Instance) error
	done   func(s *site, i spawn.Instance) error
}

func offload(ctx context.Context, s *site, i *spawn.Instance) error {
	err := s.ops.ShelveOffload(ctx, *i)
	i.Host, i.ARQs = "", nil
	return err
}

func rows() []row {
	fresh := domainxml.NewDomain(domainxml.DomainOpts{Name: "fresh"})
	stop := plain((*spawn.Operations).Stop)
	unshelve := func(ctx context.Context, s *site, i *spawn.Instance) error {
		result, err := s.ops.Unshelve(ctx, *i, spawn.MoveOpts{})
		if result != nil {
			i.Host = result.Host
		}
		return err
	}
	return []row{
		{name: "spawn", before: plain((*spawn.Operations).Delete), done: running, run: func(ctx context.Context, s *site, i *spawn.Instance) error {
			if err := s.flow.Release(ctx, i.UUID); err != nil { // frees what the first try named
				return err
			}
			fresh, err := s.launch(ctx, s.profile)
			if err == nil {
				*i = fresh
			}
			return err
		}},
		{name: "stop", run: stop, done: stopped},
		{name: "soft delete", run: plain((*spawn.Operations).SoftDelete), done: stopped},
		{name: "shelve", run: plain((*spawn.Operations).Shelve), done: stopped},
		{name: "start", before: stop, run: plain((*spawn.Operations).Start), done: running},
		{name: "restore", before: stop, run: plain((*spawn.Operations).Restore), done: running},
		{name: "soft reboot", run: plain((*spawn.Operations).SoftReboot), done: running},
		{name: "hard reboot", done: running, run: func(ctx context.Context, s *site, i *spawn.Instance) error { return s.ops.HardReboot(ctx, *i, fresh) }},
		{name: "rebuild", done: running, run: func(ctx context.Context, s *site, i *spawn.Instance) error { return s.ops.Rebuild(ctx, *i, fresh) }},
		{name: "rebuild, stopped", before: stop, done: stopped, run: func(ctx context.Context, s *site, i *spawn.Instance) error { return s.ops.Rebuild(ctx, *i, fresh) }},
		{name: "rescue and unrescue", done: running, run: func(ctx context.Context, s *site, i *spawn.Instance) error {
			saved, err := s.ops.Rescue(ctx, *i, fresh)
			if err != nil {
				return err
			}
			return s.ops.Unrescue(ctx, *i, saved)
		}},
		{name: "unshelve", before: stop, run: unshelve, done: running},
		{name: "delete", run: plain((*spawn.Operations).Delete), done: gone},
		{name: "shelve offload", run: plain((*spawn.Operations).ShelveOffload), done: gone},
		{name: "unshelve, offloaded", before: offload, run: unshelve, done: running},
		{name: "resume after host reboot", reboot: true, run: plain((*spawn.Operations).ResumeAfterHostReboot), done: running},
		{name: "evacuate", lost: true, run: evacuated, done: running},
		{name: "local delete", lost: true, done: gone, run: func(ctx context.Context, s *site, i *spawn.Instance) error {
			err := s.ops.LocalDelete(ctx, *i)
			delete(s.guests.saved, placeOf(*i))
			s.cloud.RemoveGuest(i.UUID)
			return err
		}},
	}
}

// evacuated also accepts a result with an error.
func evacuated(ctx context.Context, s *site, i *spawn.Instance) error {
	if !s.guests.down[i.Host] {
		return nil // it was moved already
	}
	result, err := s.ops.Evacuate(ctx, *i, spawn.MoveOpts{})
	if result != nil {
		*i = spawn.InstanceOf(request(""), result)
		i.Flavor = flavor(s.profile)
	}
	return err
}

// TestDrillOperationsKeepThePromise runs every operation with every Cyborg, with and without its agent. After a
// success the instance has all devices, and a failure names every leak. When the agent is back the operation
// succeeds, and nothing leaks.
func TestDrillOperationsKeepThePromise(t *testing.T) {
	t.Parallel()
	for i, r := range rows() {
		for n, c := range cells() {
			if (i+n)%step > 0 {
				continue
			}
			t.Run(r.name+"/"+c.String(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { r.keepsThePromise(t, c) })
			})
		}
	}
}

func (r row) keepsThePromise(t *testing.T, c cell) {
	s := newSite(t, worldOpts{model: c.model()})
	s.profile = c.profile
	i := s.spawn(t, c.profile)
	host := i.Host
	if r.before != nil {
		settled(t, r.before(t.Context(), s, &i))
	}
	s.guests.down[host] = r.lost
	if r.reboot || r.lost && c.dead {
		s.powerCut(t, host)
	}
	switch {
	case c.dead:
		settled(t, s.cloud.Cyborg.StopAgent(host))
	case r.reboot:
		settled(t, s.cloud.StartHost(t.Context(), host))
	}
	before := s.leaks(c)
	err := r.run(t.Context(), s, &i)
	if err == nil {
		if wrong := r.done(s, i); wrong != nil {
			t.Error(wrong)
		}
	}
	s.named(t, c, err, before)
	named := s.left

	s.createMdevs(t) // a released Cyborg creates none again
	settled(t, s.cloud.StartHost(t.Context(), host))
	if s.guests.down[host] {
		if moved := i.Host != host; moved {
			delete(s.guests.saved, place{i.UUID, host})
			s.guests.down[host] = false
		}
	}
	if again := r.run(t.Context(), s, &i); err != nil && again != nil {
		t.Fatalf("when the agent is back: %v\nbefore: %v", again, err)
	} else if err != nil {
		if wrong := r.done(s, i); wrong != nil {
			t.Error(wrong)
		}
	}
	for _, left := range slices.Concat(named, leftovers(err)) { // what Evacuate, or a spawn on a second host, has named
		if slices.ContainsFunc(s.cloud.Cyborg.ARQs(), func(a fakecyborg.ARQ) bool { return a.UUID == left.ID }) {
			settled(t, s.cyborg.DeleteARQs(t.Context(), []string{left.ID}))
		}
	}
	s.sound(t)
}

// leaks returns the texts of the leaks by kind and subject. With binding states Cyborg deletes an ARQ at once and
// keeps the handle of its mediated device until the agent is back.
func (s *site) leaks(c cell) map[string]string {
	texts := map[string]string{}
	for _, leak := range s.cloud.Leaks() {
		if !c.states || !c.dead || !strings.Contains(leak.Text, "is in use by no accelerator request") {
			texts[leak.Kind+" "+leak.Subject] = leak.Text
		}
	}
	return texts
}

// named checks that the error of an operation names every leak.
func (s *site) named(t *testing.T, c cell, err error, before map[string]string) {
	t.Helper()
	left := slices.Concat(s.left, leftovers(err))
	for subject, text := range s.leaks(c) {
		if before[subject] != "" && err != nil {
			continue // as it was
		}
		named := slices.ContainsFunc(left, func(l spawn.Leftover) bool { return strings.Contains(text, l.ID) })
		if !named {
			t.Errorf("error %v does not name: %s", err, text)
		}
	}
	if pending := s.events.Pending(); pending != 0 {
		t.Errorf("%d events are still registered", pending)
	}
}
