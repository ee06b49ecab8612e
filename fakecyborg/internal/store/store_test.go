package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/sim"
)

const (
	instanceA = "a1a1a1a1-0000-4000-8000-000000000001"
	instanceB = "b1b1b1b1-0000-4000-8000-000000000002"
)

func now() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// settled ends the test if something that it builds on has failed.
func settled(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is a store with a profile and a device of two deployables: "pci" with PCI functions and
// "mdev" with mediated devices, of two units each.
type fixture struct {
	*store.Store
	device store.Device
}

func newFixture(t testing.TB, cfg store.Config) fixture {
	t.Helper()
	if cfg.Layout == "" {
		cfg.Layout = store.LayoutTree
	}
	f := fixture{Store: store.New(cfg)}
	one := "1"
	f.Update(nil, func(tx store.Tx) {
		_, err := tx.CreateProfile(store.Profile{Name: "p", Groups: []store.Group{{{Key: "resources:PGPU", Value: &one}}}}, now())
		settled(t, err)
		f.device = tx.AddDevice("cn0", driver.Device{
			Type: driver.TypeGPU, Vendor: "10de", ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: pciInfo(0)},
		}, "test", false, now())
		for _, kind := range []string{"pci", "mdev"} {
			d, err := tx.AddDeployable(f.device, spec(kind, 0, 1), "", now())
			settled(t, err)
			tx.OfferDeployable(d.UUID, now())
		}
	})
	return f
}

func pciInfo(function int) driver.Info {
	return driver.Info{"domain": "0000", "bus": "3b", "device": "00", "function": fmt.Sprint(function)}
}

// spec returns a driver's report of a deployable with units of the given numbers.
func spec(kind string, units ...int) driver.Deployable {
	d := driver.Deployable{Name: "cn0_" + kind, NumAccelerators: max(len(units), 1), DriverName: "test", Class: "PGPU"}
	for _, n := range units {
		h := driver.AttachHandle{Type: driver.HandlePCI, Info: pciInfo(n + 1)}
		if kind == "mdev" {
			h.Type, h.Info["vgpu_mark"] = driver.HandleMDEV, fmt.Sprintf("nvidia-35_%d", n)
			h.Info["asked_type"] = "nvidia-35"
		}
		d.AttachHandles = append(d.AttachHandles, h)
	}
	return d
}

func provider(kind string) string { return driver.ProviderUUID("cn0_" + kind) }

// find finds the deployable of a kind.
func find(tx store.Tx, kind string) store.Deployable {
	for d := range tx.Deployables() {
		if d.Name == "cn0_"+kind {
			return d
		}
	}
	return store.Deployable{}
}

func (f fixture) deployable(kind string) store.Deployable {
	return store.Read(f.Store, func(tx store.Tx) store.Deployable { return find(tx, kind) })
}

func (f fixture) handles(kind string) []store.Handle {
	return store.Read(f.Store, func(tx store.Tx) []store.Handle { return slices.Collect(tx.Handles(find(tx, kind).UUID)) })
}

func (f fixture) newARQ(t testing.TB) store.ARQ {
	t.Helper()
	var arqs []store.ARQ
	var err error
	f.Update(nil, func(tx store.Tx) { arqs, err = tx.CreateARQs("p", "demo", store.BitstreamRef{}, now()) })
	if err != nil || len(arqs) != 1 {
		t.Fatalf("%d requests, %v", len(arqs), err)
	}
	return arqs[0]
}

func (f fixture) arq(uuid string) store.ARQ {
	a, _ := store.Find(f.Store, func(tx store.Tx) (store.ARQ, error) { return tx.ARQ(uuid, store.Everything()) })
	return a
}

func (f fixture) bind(uuid, kind, instance string) (b store.Bind, err error) {
	f.Update(nil, func(tx store.Tx) {
		a, _ := tx.ARQ(uuid, store.Everything())
		b, err = tx.StartBind(a, store.BindArgs{Host: "cn0", Provider: provider(kind), Instance: instance}, "demo", 0, now())
	})
	return b, err
}

// started is a bind of a request, which has begun.
func (f fixture) started(t testing.TB, a store.ARQ, kind, instance string) store.Bind {
	t.Helper()
	b, err := f.bind(a.UUID, kind, instance)
	settled(t, err)
	return b
}

func (f fixture) finish(b store.Bind) (done bool) {
	f.Update(nil, func(tx store.Tx) {
		done = tx.FinishBind(b, now()) == nil
		tx.EndPatch(b.Patch)
	})
	return done
}

// release frees the handle of a request and calls finish. The mediated device may have been removed or not.
func (f fixture) release(uuid string, removed bool, finish func(store.Tx, store.ARQ)) {
	var work store.HandleWork
	mdev := false
	f.Update(nil, func(tx store.Tx) {
		a, _ := tx.ARQ(uuid, store.Everything())
		if work, mdev = tx.ReleaseARQ(a, false); !mdev {
			a, _ = tx.ARQ(uuid, store.Everything())
			finish(tx, a)
		}
	})
	if !mdev {
		return
	}
	f.Update(nil, func(tx store.Tx) {
		tx.EndRemoval(work, removed, now())
		if removed {
			a, _ := tx.ARQ(uuid, store.Everything())
			finish(tx, a)
		}
	})
}

func unbind(tx store.Tx, a store.ARQ) { tx.Unbind(a, now()) }

// check loads the records of the store into another one, which checks all conditions between rows.
func (f fixture) check(t interface{ Fatalf(string, ...any) }) {
	var records []sim.Record
	for r, err := range f.DB().Records() {
		if err != nil {
			t.Fatalf("records: %v", err)
		}
		records = append(records, r)
	}
	if err := sim.Replace(context.Background(), store.New(store.Config{Layout: store.LayoutTree}).DB(), records); err != nil {
		t.Fatalf("the state is inconsistent: %v", err)
	}
}

func kindOf(err error) store.RefusalKind {
	var r *store.Refusal
	if errors.As(err, &r) {
		return r.Kind
	}
	return -1
}

func TestABindTakesTheLowestFreeHandle(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	a, b, c := f.newARQ(t), f.newARQ(t), f.newARQ(t)
	handles := f.handles("pci")
	take := func(arq store.ARQ, want int) {
		t.Helper()
		bind, err := f.bind(arq.UUID, "pci", instanceA)
		if err != nil || bind.Handle != handles[want].UUID || !f.finish(bind) {
			t.Fatalf("ARQ %d got handle %s, %v; want that at %d", arq.ID, bind.Handle, err, want)
		}
	}
	take(a, 0)
	take(b, 1)
	if _, err := f.bind(c.UUID, "pci", instanceA); kindOf(err) != store.NotFound || f.arq(c.UUID).State != store.BindFailed {
		t.Fatalf("without a free handle: %v, %s", err, f.arq(c.UUID).State)
	}
	f.release(a.UUID, true, unbind)
	f.release(c.UUID, true, unbind)
	take(c, 0)
	f.check(t)
}

func TestTheStatesOfABind(t *testing.T) {
	t.Parallel()
	started := func(f fixture, a store.ARQ) store.Bind {
		b, _ := f.bind(a.UUID, "pci", instanceA)
		return b
	}
	fail := func(f fixture, b store.Bind, keep bool) {
		f.Update(nil, func(tx store.Tx) { tx.FailBind(b, errors.New("x"), keep, now()) })
	}
	for name, tt := range map[string]struct {
		quirks bool
		do     func(f fixture, a store.ARQ)
		state  string
		inUse  int
		rebind bool // whether a bind is allowed afterwards
	}{
		"created":       {state: store.Initial, do: func(fixture, store.ARQ) {}, rebind: true},
		"started":       {state: store.BindStarted, inUse: 1, do: func(f fixture, a store.ARQ) { started(f, a) }},
		"bound":         {state: store.Bound, inUse: 1, do: func(f fixture, a store.ARQ) { f.finish(started(f, a)) }},
		"failed":        {state: store.BindFailed, do: func(f fixture, a store.ARQ) { fail(f, started(f, a), false) }},
		"failed, kept":  {state: store.BindFailed, inUse: 1, do: func(f fixture, a store.ARQ) { fail(f, started(f, a), true) }},
		"no deployable": {state: store.BindFailed, do: func(f fixture, a store.ARQ) { _, _ = f.bind(a.UUID, "gone", instanceA) }},
		"no deployable, upstream": {quirks: true, state: store.BindStarted, do: func(f fixture, a store.ARQ) {
			_, _ = f.bind(a.UUID, "gone", instanceA)
		}},
		"abandoned": {state: store.BindStarted, do: func(f fixture, a store.ARQ) {
			b := started(f, a)
			f.Update(nil, func(tx store.Tx) { tx.AbandonBind(b) })
		}},
		"unbound": {state: store.Unbound, rebind: true, do: func(f fixture, a store.ARQ) {
			f.finish(started(f, a))
			f.release(a.UUID, true, unbind)
		}},
		"unbound while it was being bound": {state: store.Unbound, rebind: true, do: func(f fixture, a store.ARQ) {
			b := started(f, a)
			f.release(a.UUID, true, unbind)
			if f.finish(b) {
				t.Error("a bind finished after the unbind")
			}
		}},
		"mediated device not removed": {state: store.Bound, inUse: 1, do: func(f fixture, a store.ARQ) {
			b, _ := f.bind(a.UUID, "mdev", instanceA)
			f.finish(b)
			f.release(a.UUID, false, unbind)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, store.Config{Quirks: tt.quirks})
			a := f.newARQ(t)
			tt.do(f, a)
			used := store.Read(f.Store, func(tx store.Tx) (n int) {
				for h := range tx.AllHandles() {
					if h.InUse() {
						n++
					}
				}
				return n
			})
			if got := f.arq(a.UUID); got.State != tt.state || used != tt.inUse {
				t.Errorf("state %s with %d handles in use, want %s with %d", got.State, used, tt.state, tt.inUse)
			}
			if _, err := f.bind(a.UUID, "pci", instanceB); (err == nil) != tt.rebind || err != nil && kindOf(err) != store.BadState {
				t.Errorf("another bind: %v", err)
			}
		})
	}
}

func TestAReportKeepsHandlesInUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	a := f.newARQ(t)
	bind, _ := f.bind(a.UUID, "pci", instanceA)
	f.finish(bind)
	report := func(units ...int) (err error) {
		f.Update(nil, func(tx store.Tx) { err = tx.UpdateDeployable(find(tx, "pci").UUID, spec("pci", units...), now()) })
		return err
	}
	type handle struct {
		ID    int64
		State store.HandleState
	}
	want := func(step string, list ...handle) {
		t.Helper()
		var got []handle
		for _, h := range f.handles("pci") {
			got = append(got, handle{h.ID, h.State})
		}
		if diff := cmp.Diff(list, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	if err := report(2); err == nil {
		t.Error("no error although the handle of a request vanished")
	}
	want("the first handle vanished and the second was replaced", handle{1, store.Withdrawn}, handle{5, store.Free})
	f.release(a.UUID, true, unbind)
	want("after the unbind", handle{5, store.Free})
	if err := report(0, 2); err != nil {
		t.Error(err)
	}
	want("the first one is back", handle{5, store.Free}, handle{6, store.Free})
	f.check(t)
}

func TestADeployableInUseIsNotWithdrawn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	a := f.newARQ(t)
	bind, _ := f.bind(a.UUID, "mdev", instanceA)
	f.finish(bind)
	withdraw := func() (err error) {
		f.Update(nil, func(tx store.Tx) { err = tx.Withdraw(slices.Collect(tx.Deployables())) })
		return err
	}
	if err := withdraw(); err == nil || !f.deployable("pci").InPlacement() {
		t.Fatalf("withdrew one of two, %v", err)
	}
	f.release(a.UUID, true, unbind)
	if err := withdraw(); err != nil || f.deployable("pci").InPlacement() || f.deployable("mdev").InPlacement() {
		t.Fatalf("not withdrawn: %v", err)
	}
	if _, err := f.bind(f.newARQ(t).UUID, "pci", instanceA); kindOf(err) != store.NotFound {
		t.Errorf("a bind to a withdrawn deployable: %v", err)
	}
}

func TestRegionsAreClaimedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	a := f.newARQ(t)
	image := store.Image{ID: instanceB}
	claim := func() (l store.Lease, err error) {
		f.Update(nil, func(tx store.Tx) { l, err = tx.ClaimUnused(find(tx, "pci"), image) })
		return l, err
	}
	lease, err := claim()
	settled(t, err)
	if _, err := claim(); kindOf(err) != store.Conflict {
		t.Errorf("claimed twice: %v", err)
	}
	if _, err := f.bind(a.UUID, "pci", instanceA); kindOf(err) != store.Conflict {
		t.Errorf("a bind while the region is programmed: %v", err)
	}
	f.Update(nil, func(tx store.Tx) { tx.EndProgramming(lease, now()) })
	if d := f.deployable("pci"); d.Bitstream != image.ID || d.Region.Content == "spoiled" {
		t.Errorf("after programming: %+v", d)
	}
	f.release(a.UUID, true, unbind)
	bind, err := f.bind(a.UUID, "pci", instanceA)
	if err != nil || !f.finish(bind) {
		t.Fatal(err)
	}
	if _, err := claim(); kindOf(err) != store.Conflict {
		t.Errorf("claimed in use: %v", err)
	}
	f.release(a.UUID, true, unbind)
	if lease, err = claim(); err != nil {
		t.Fatal(err)
	}
	f.Update(nil, func(tx store.Tx) { tx.Spoil(lease, now()); tx.Unclaim(lease) })
	if d := f.deployable("pci"); d.Bitstream != "" || d.Region.Content != "spoiled" {
		t.Errorf("after a failure: %+v", d)
	}
}

func TestRecoverEndsTheWorkOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	bound, going, gone := f.newARQ(t), f.newARQ(t), f.newARQ(t)
	b, _ := f.bind(bound.UUID, "pci", instanceA)
	f.finish(b)
	open, _ := f.bind(going.UUID, "pci", instanceA)
	lost, _ := f.bind(gone.UUID, "mdev", instanceB)
	f.Update(nil, func(tx store.Tx) {
		if _, ok := tx.BeginBindWork(lost); !ok {
			t.Error("no lease for the bind")
		}
		a, _ := tx.ARQ(gone.UUID, store.Everything())
		if _, mdev := tx.ReleaseARQ(a, false); mdev {
			t.Error("the handle has two leases")
		}
		a, _ = tx.ARQ(gone.UUID, store.Everything())
		tx.DeleteARQ(a)
	})
	recover := func() (r store.Recovery) {
		f.Update(nil, func(tx store.Tx) { r = tx.Recover(now()) })
		return r
	}
	want := store.Recovery{Patches: []int64{open.Patch, lost.Patch}, Orphans: []string{lost.Handle}}
	if diff := cmp.Diff(want, recover()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.check(t)
	f.Update(nil, func(tx store.Tx) {
		work, ok := tx.BeginWork(store.WorkRemove, lost.Handle)
		if !ok {
			t.Fatal("the orphan cannot be removed")
		}
		tx.EndRemoval(work, true, now())
	})
	for _, h := range f.handles("mdev") {
		if h.InUse() {
			t.Errorf("handle %s is in use", h.UUID)
		}
	}
}

// Only handles that an agent has to remove are orphans.
func TestRecoverKeepsTheHandlesOfRequests(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind   string
		delete bool
		orphan bool
		inUse  int
	}{
		"mdev":         {"mdev", false, false, 1},
		"mdev deleted": {"mdev", true, true, 1},
		"pci":          {"pci", false, false, 1},
		"pci deleted":  {"pci", true, false, 0},
	} {
		f := newFixture(t, store.Config{})
		b := f.started(t, f.newARQ(t), tt.kind, instanceA)
		f.Update(nil, func(tx store.Tx) {
			tx.BeginBindWork(b)
			if tt.delete {
				a, _ := tx.ARQ(b.ARQ, store.Everything())
				tx.ReleaseARQ(a, false)
				a, _ = tx.ARQ(b.ARQ, store.Everything())
				tx.DeleteARQ(a)
			}
			var want []string
			if tt.orphan {
				want = []string{b.Handle}
			}
			if diff := cmp.Diff(want, tx.Recover(now()).Orphans); diff != "" {
				t.Errorf("%s: orphans (-want +got):\n%s", name, diff)
			}
		})
		used := 0
		for _, h := range f.handles(tt.kind) {
			if h.InUse() {
				used++
			}
		}
		if used != tt.inUse {
			t.Errorf("%s: %d handles in use, want %d", name, used, tt.inUse)
		}
	}
}

// Binds that need an image of an interrupted programming wait until it was repeated. Others do not wait.
func TestOnlyBindsOfAnImageWaitForTheProgramming(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	image := f.started(t, f.imageARQ(t, "FPGA"), "pci", instanceA)
	plain := f.started(t, f.newARQ(t), "mdev", instanceB)
	recovered := func() (r store.Recovery) {
		f.Update(nil, func(tx store.Tx) { r = tx.Recover(now()) })
		return r
	}
	want := store.Recovery{Patches: []int64{image.Patch, plain.Patch}, Programming: []int64{image.Patch}}
	if diff := cmp.Diff(want, recovered()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.Update(nil, func(tx store.Tx) { _ = tx.FinishBind(image, now()) })
	want.Programming = nil
	if diff := cmp.Diff(want, recovered()); diff != "" {
		t.Errorf("after the bind (-want +got):\n%s", diff)
	}
}

func TestRequestsOfAGroup(t *testing.T) {
	t.Parallel()
	group := func(pairs ...string) store.Group {
		var g store.Group
		for i := 0; i < len(pairs); i += 2 {
			g = append(g, store.GroupItem{Key: pairs[i], Value: &pairs[i+1]})
		}
		return g
	}
	for name, tt := range map[string]struct {
		groups           []store.Group
		want, wantQuirks int // requests; -1: the profile is refused, -2: its requests are
	}{
		"one":                 {[]store.Group{group("resources:PGPU", "1")}, 1, 1},
		"sum":                 {[]store.Group{group("resources:PGPU", "2", "resources:VGPU", "1"), group("resources:FPGA", "1")}, 4, 4},
		"nothing":             {[]store.Group{group("trait:CUSTOM_A", "required")}, -1, 0},
		"zero":                {[]store.Group{group("resources:PGPU", "0")}, -1, 0},
		"negative":            {[]store.Group{group("resources:PGPU", "-1"), group("resources:FPGA", "2")}, -1, 2},
		"memory":              {[]store.Group{group("resources:PGPU", "1", "resources:CUSTOM_ACCELERATOR_MEMORY_HBM", "4")}, 1, 5},
		"memory only":         {[]store.Group{group("resources:CUSTOM_ACCELERATOR_MEMORY_HBM", "4")}, -1, 4},
		"Xilinx":              {[]store.Group{group("resources:FPGA", "2", "trait:CUSTOM_FPGA_XILINX", "required")}, 4, 4},
		"most":                {[]store.Group{group("resources:PGPU", "1024")}, 1024, 1024},
		"Xilinx of Rocky":     {[]store.Group{group("resources:CUSTOM_ACCELERATOR_FPGA", "2", "trait:CUSTOM_FPGA_XILINX", "required")}, 4, -2},
		"Xilinx without FPGA": {[]store.Group{group("resources:PGPU", "1", "trait:CUSTOM_FPGA_XILINX", "required")}, -1, -2},
		"no decimal number":   {[]store.Group{group("resources:PGPU", "1_0", "resources:FPGA", "٣")}, -1, 13},
		"not a number":        {[]store.Group{group("resources:PGPU", "1.5")}, -1, -2},
		"Xilinx of both": {
			[]store.Group{group("resources:FPGA", "1", "resources:CUSTOM_ACCELERATOR_FPGA", "2", "trait:CUSTOM_FPGA_XILINX", "required")}, 6, 2,
		},
		"a number of Cyborg's": {[]store.Group{group("resources:PGPU", "1", "accel:note", "5")}, 1, 1},
		"too many":             {[]store.Group{group("resources:PGPU", "1025")}, -1, -1},
		"lower-case trait":     {[]store.Group{group("resources:PGPU", "1", "trait:CUSTOM_a", "required")}, -1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, quirks := range []bool{false, true} {
				f := newFixture(t, store.Config{Quirks: quirks})
				want := tt.want
				if quirks {
					want = tt.wantQuirks
				}
				profile := store.Profile{Name: "q", Groups: tt.groups}
				if err := profile.Check(quirks); (err != nil) != (want == -1) {
					t.Errorf("quirks %t: check: %v", quirks, err)
				}
				if want == -1 {
					continue
				}
				f.Update(nil, func(tx store.Tx) {
					_, err := tx.CreateProfile(profile, now())
					settled(t, err)
					if arqs, err := tx.CreateARQs("q", "demo", store.BitstreamRef{}, now()); (err != nil) != (want == -2) || len(arqs) != max(want, 0) {
						t.Errorf("quirks %t: %d requests, %v; want %d", quirks, len(arqs), err, want)
					}
				})
			}
		})
	}
}

// After any order of binds, unbinds, deletions and reports the state can be loaded again, and without requests no
// handle is in use.
func TestAnyOrderOfTransitionsIsConsistent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		f := newFixture(t, store.Config{})
		var arqs []string
		var open []store.Bind
		some := func() string { return rapid.SampledFrom(arqs).Draw(rt, "arq") }
		kind := func() string { return rapid.SampledFrom([]string{"pci", "mdev"}).Draw(rt, "deployable") }
		remove := func(uuid string, removed bool) { f.release(uuid, removed, store.Tx.DeleteARQ) }
		rt.Repeat(map[string]func(*rapid.T){
			"create": func(*rapid.T) { arqs = append(arqs, f.newARQ(t).UUID) },
			"bind": func(rt *rapid.T) {
				if len(arqs) == 0 {
					rt.Skip()
				}
				if b, err := f.bind(some(), kind(), instanceA); err == nil {
					open = append(open, b)
				}
			},
			"end a bind": func(rt *rapid.T) {
				if len(open) == 0 {
					rt.Skip()
				}
				b := open[0]
				open = open[1:]
				if rapid.Bool().Draw(rt, "fails") || !f.finish(b) {
					f.Update(nil, func(tx store.Tx) {
						tx.FailBind(b, errors.New("x"), false, now())
						tx.EndPatch(b.Patch)
					})
				}
			},
			"unbind": func(rt *rapid.T) {
				if len(arqs) == 0 {
					rt.Skip()
				}
				f.release(some(), rapid.Bool().Draw(rt, "removed"), unbind)
			},
			"delete": func(rt *rapid.T) {
				if len(arqs) == 0 {
					rt.Skip()
				}
				uuid := some()
				remove(uuid, true)
				arqs = slices.DeleteFunc(arqs, func(a string) bool { return a == uuid })
			},
			"report": func(rt *rapid.T) {
				k, units := kind(), rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 1, 3, rapid.ID).Draw(rt, "units")
				f.Update(nil, func(tx store.Tx) { _ = tx.UpdateDeployable(find(tx, k).UUID, spec(k, units...), now()) })
			},
			"": func(rt *rapid.T) { f.check(rt) },
		})
		for _, uuid := range arqs {
			remove(uuid, true)
		}
		for _, k := range []string{"pci", "mdev"} {
			for _, h := range f.handles(k) {
				if h.State != store.Free {
					rt.Fatalf("handle %s of %s is %s", h.UUID, k, h.State)
				}
			}
		}
	})
}
