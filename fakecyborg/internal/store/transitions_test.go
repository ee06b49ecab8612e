package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/sim"
)

// bound is a request with a mediated device that a guest uses.
func (f fixture) bound(t *testing.T) (store.ARQ, store.Bind) {
	t.Helper()
	b, err := f.bind(f.newARQ(t).UUID, "mdev", instanceA)
	if err != nil || !f.finish(b) {
		t.Fatalf("not bound: %v", err)
	}
	return f.arq(b.ARQ), b
}

func TestAFailedBindSaysWhy(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	b := f.started(t, f.newARQ(t), "pci", instanceA)
	f.Update(nil, func(tx store.Tx) { tx.FailBind(b, errors.New("the card was removed"), false, now()) })
	if a := f.arq(b.ARQ); a.State != store.BindFailed || a.Failure != "the card was removed" {
		t.Errorf("the request is %s: %q", a.State, a.Failure)
	}
}

// Two workers on one mediated device could remove a device that a guest uses.
func TestAHandleHasOneWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	b := f.started(t, f.newARQ(t), "mdev", instanceA)
	f.Update(nil, func(tx store.Tx) {
		_, first := tx.BeginBindWork(b)
		_, second := tx.BeginBindWork(b)
		_, other := tx.BeginWork(store.WorkRemove, b.Handle)
		if !first || second || other {
			t.Errorf("workers: %t, %t, %t", first, second, other)
		}
		if err := tx.SetARQState(b.ARQ, store.BindFailed, now()); err == nil {
			t.Error("the state was set while the agent was binding")
		}
		a, _ := tx.ARQ(b.ARQ, store.Everything())
		if _, remove := tx.ReleaseARQ(a, false); remove {
			t.Error("the release has a worker of its own")
		}
	})
	f = newFixture(t, store.Config{})
	_, held := f.bound(t)
	f.Update(nil, func(tx store.Tx) {
		if _, ok := tx.BeginWork(store.WorkRemove, held.Handle); ok {
			t.Error("the device of a request is removed as an orphan")
		}
		a, _ := tx.ARQ(held.ARQ, store.Everything())
		tx.ReleaseARQ(a, true)
		_, first := tx.BeginWork(store.WorkRemove, held.Handle)
		_, second := tx.BeginWork(store.WorkRemove, held.Handle)
		_, unknown := tx.BeginWork(store.WorkRemove, instanceA)
		if !first || second || unknown {
			t.Errorf("workers of an orphan: %t, %t; of an unknown handle: %t", first, second, unknown)
		}
	})
}

// The work of a superseded bind ends while the device is being removed.
func TestALateBindLeavesTheRemovalAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	b := f.started(t, f.newARQ(t), "mdev", instanceA)
	f.Update(nil, func(tx store.Tx) {
		a, _ := tx.ARQ(b.ARQ, store.Everything())
		work, remove := tx.ReleaseARQ(a, false)
		tx.FailBind(b, errors.New("too late"), false, now())
		if h, _ := tx.Handle(b.Handle); !remove || !h.InUse() {
			t.Errorf("removal: %t, handle in use: %t", remove, h.InUse())
		}
		tx.EndRemoval(work, true, now())
		if h, _ := tx.Handle(b.Handle); h.InUse() {
			t.Error("the handle is in use after the removal")
		}
	})
}

// An orphan is a handle in use without a request and without a worker.
func TestOrphansOfAHost(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	a, b := f.bound(t)
	f.Update(nil, func(tx store.Tx) {
		want := func(step string, orphans, restorable []string) {
			t.Helper()
			if diff := cmp.Diff([][]string{orphans, restorable}, unsettled(tx)); diff != "" {
				t.Errorf("%s: orphans and restorable (-want +got):\n%s", step, diff)
			}
		}
		want("bound", nil, []string{b.Handle})
		tx.ReleaseARQ(a, true)
		want("released", []string{b.Handle}, nil)
		tx.BeginWork(store.WorkRemove, b.Handle)
		want("being removed", nil, nil)
	})
}

func TestAStateThatIsSetOvertakesTheBind(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	b := f.started(t, f.newARQ(t), "pci", instanceA)
	f.Update(nil, func(tx store.Tx) {
		settled(t, tx.SetARQState(b.ARQ, store.UnbindFailed, now()))
	})
	if f.finish(b) || f.arq(b.ARQ).State != store.UnbindFailed {
		t.Errorf("the bind ended after all: %s", f.arq(b.ARQ).State)
	}
	f.release(b.ARQ, true, unbind)
	if f.finish(b) || f.arq(b.ARQ).State != store.Unbound {
		t.Errorf("the bind ended after the unbind: %s", f.arq(b.ARQ).State)
	}
}

func TestAnIdleRequestIsNowhere(t *testing.T) {
	t.Parallel()
	for _, state := range []string{store.Initial, store.Unbound, store.Deleting} {
		f := newFixture(t, store.Config{})
		a := f.newARQ(t)
		if _, err := f.bind(a.UUID, "gone", instanceA); err == nil {
			t.Fatal("bound to nothing")
		}
		f.Update(nil, func(tx store.Tx) {
			if err := tx.SetARQState(a.UUID, state, now()); err != nil {
				t.Error(err)
			}
		})
		a = f.arq(a.UUID)
		if idle := a.Host+a.Provider+a.Instance == ""; idle != (state != store.Deleting) || a.State != state {
			t.Errorf("%s: %+v", state, a)
		}
		f.check(t)
	}
}

// A restoration that is interrupted because the agent goes down is not a failed try.
func TestARestorationCutShortDoesNotCount(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	a, b := f.bound(t)
	restore := func(down bool) {
		f.Update(nil, func(tx store.Tx) {
			work, ok := tx.BeginWork(store.WorkRestore, b.Handle)
			if !ok {
				t.Fatal("nothing to restore")
			}
			if down {
				tx.StopAgent("cn0", now(), time.Minute)
			}
			tx.EndRestore(work, errors.New("no mdev"), 0, now())
			tx.StartAgent("cn0", now())
		})
	}
	f.Update(nil, func(tx store.Tx) {
		tx.AddAgent("cn0", "", now())
		before := tx.HasProvisioning("cn0")
		if tx.MarkProvisioning("cn0", now()); before || !tx.HasProvisioning("cn0") {
			t.Errorf("the host was starting: %t", before)
		}
	})
	restore(true)
	if got := f.arq(a.UUID); got.RestoreFailures != 0 || got.State != store.Provisioning {
		t.Errorf("cut short: %s after %d failures", got.State, got.RestoreFailures)
	}
	for range 3 {
		restore(false)
	}
	if got := f.arq(a.UUID); got.RestoreFailures != 3 || got.State != store.BindFailed || got.Failure != "no mdev" {
		t.Errorf("failed three times: %s after %d failures, %q", got.State, got.RestoreFailures, got.Failure)
	}
}

func TestAProfileInUseIsNotDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	a := f.newARQ(t)
	remove := func() (err error) {
		f.Update(nil, func(tx store.Tx) {
			p, _ := tx.ProfileByName("p")
			err = tx.DeleteProfile(p)
		})
		return err
	}
	if err := remove(); kindOf(err) != store.BadState {
		t.Errorf("with one request: %v", err)
	}
	f.release(a.UUID, true, store.Tx.DeleteARQ)
	if err := remove(); err != nil {
		t.Errorf("without a request: %v", err)
	}
}

func TestNothingOfARemovedDeployableStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	pci := f.deployable("pci")
	count := func() (handles, attributes int) {
		store.Read(f.Store, func(tx store.Tx) (none struct{}) {
			for h := range tx.AllHandles() {
				if h.Deployable == pci.UUID {
					handles++
				}
			}
			attributes = len(tx.Attributes(pci.UUID))
			return none
		})
		return handles, attributes
	}
	if handles, attributes := count(); handles != 2 || attributes == 0 {
		t.Fatalf("%d handles and %d attributes", handles, attributes)
	}
	f.Update(nil, func(tx store.Tx) {
		tx.RemoveDeployable(pci.UUID)
		tx.RemoveEmptyDevice(f.device.UUID)
		if _, err := tx.Device(f.device.UUID); err != nil {
			t.Errorf("the device still has a deployable: %v", err)
		}
		tx.RemoveDeployable(find(tx, "mdev").UUID)
		tx.RemoveEmptyDevice(f.device.UUID)
		if _, err := tx.Device(f.device.UUID); err == nil {
			t.Error("the device stays without deployables")
		}
	})
	if handles, attributes := count(); handles != 0 || attributes != 0 {
		t.Errorf("%d handles and %d attributes stay", handles, attributes)
	}
}

// Only Cyborg has the attributes of users: a report neither deletes nor sends them.
func TestAttributesOfUsersStay(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		f := newFixture(t, store.Config{Quirks: quirks})
		pci := f.deployable("pci")
		f.Update(nil, func(tx store.Tx) {
			before := len(tx.Attributes(pci.UUID))
			user, err := tx.CreateAttribute(store.Attribute{Deployable: pci.UUID, Key: "trait9", Value: "CUSTOM_OF_USER"}, now())
			settled(t, err)
			for _, trait := range tx.Reported(pci).Traits {
				if trait == user.Value {
					t.Error("Placement gets the attribute of a user")
				}
			}
			settled(t, tx.UpdateDeployable(pci.UUID, spec("pci", 0, 1), now()))
			want := before + 1
			if quirks {
				want = before // upstream deletes it
			}
			if got := len(tx.Attributes(pci.UUID)); got != want {
				t.Errorf("quirks %t: %d attributes after a report, want %d", quirks, got, want)
			}
		})
	}
}

func TestTheOldestEventsAreDropped(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	f.Update(nil, func(tx store.Tx) { tx.AddEvents(make([]sim.Event, 10_003)) })
	first, n := int64(0), 0
	store.Read(f.Store, func(tx store.Tx) (none struct{}) {
		for e := range tx.Events() {
			if n++; first == 0 {
				first = e.ID
			}
		}
		return none
	})
	if n != 10_000 || first != 4 {
		t.Errorf("%d events from %d", n, first)
	}
}

func TestAHostFallsBackOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	f.Update(nil, func(tx store.Tx) {
		tx.FallBack("unknown")
		if _, ok := tx.Agent("unknown"); ok {
			t.Error("an unknown host has an agent")
		}
		tx.AddAgent("cn0", "cn0.example.org", now())
		tx.SetReport("cn0", nil)
		tx.FallBack("cn0")
		tx.SetReport("cn0", nil) // of another host, which has that name now
		tx.FallBack("cn0")
		var hosts []string
		for r := range tx.Reports() {
			hosts = append(hosts, r.Host)
		}
		if a, _ := tx.Agent("cn0.example.org"); a.Name() != "cn0.example.org" || len(hosts) != 2 {
			t.Errorf("agent %s, reports of %v", a.Name(), hosts)
		}
	})
}

// A host may be added again with another fallback, as after a dump was loaded.
func TestAnAgentIsAddedAgain(t *testing.T) {
	t.Parallel()
	for fallback, fellBack := range map[string]bool{"b": true, "c": true, "": false} {
		f := newFixture(t, store.Config{})
		f.Update(nil, func(tx store.Tx) {
			tx.AddAgent("a", "b", now())
			tx.FallBack("a")
			tx.AddAgent("a", fallback, now().Add(time.Hour))
			want := store.Agent{Host: "a", Fallback: fallback, FellBack: fellBack, StartedAt: now()}
			if got, _ := tx.Agent("a"); got != want {
				t.Errorf("with the fallback %q: %+v, want %+v", fallback, got, want)
			}
		})
	}
}

// An agent may be started before its host comes back.
func TestOnlyAnAgentThatIsDownReturns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	f.Update(nil, func(tx store.Tx) {
		tx.AddAgent("a", "", now())
		tx.SetReturn("a", now())
		if a, _ := tx.Agent("a"); !a.ReturnsAt.IsZero() {
			t.Errorf("a running agent returns at %v", a.ReturnsAt)
		}
		tx.StopAgent("a", now(), time.Minute)
		tx.SetReturn("a", now())
		if a, _ := tx.Agent("a"); a.ReturnsAt.IsZero() {
			t.Error("the agent does not return")
		}
	})
}

func TestAnUnknownAgentDoesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	f.Update(nil, func(tx store.Tx) {
		tx.StopAgent("nowhere", now(), time.Minute)
		tx.SetReturn("nowhere", now())
		tx.StartAgent("nowhere", now())
	})
	for r, err := range f.DB().Records() {
		if err != nil || r.Table == "accelerator.agents" {
			t.Errorf("%s %s: %v", r.Table, r.Row, err)
		}
	}
}

func TestADeviceIsUpdatedWhenItChanges(t *testing.T) {
	t.Parallel()
	same := driver.Device{Type: driver.TypeGPU, Vendor: "10de", ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: pciInfo(0)}}
	for name, change := range map[string]func(*driver.Device){
		"nothing": func(*driver.Device) {}, "type": func(d *driver.Device) { d.Type = driver.TypeFPGA },
		"vendor": func(d *driver.Device) { d.Vendor = "8086" }, "model": func(d *driver.Device) { d.Model = "A100" },
		"board": func(d *driver.Device) { d.StdBoardInfo = "{}" }, "vendor's board": func(d *driver.Device) { d.VendorBoardInfo = "{}" },
	} {
		f := newFixture(t, store.Config{})
		found := same
		change(&found)
		f.Update(nil, func(tx store.Tx) {
			tx.UpdateDevice(f.device.UUID, found, "test", now())
			if d, _ := tx.Device(f.device.UUID); d.UpdatedAt.IsZero() != (name == "nothing") {
				t.Errorf("after a change of %s: updated at %v", name, d.UpdatedAt)
			}
		})
	}
}

func TestADeployableIsUpdatedWhenItChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*driver.Deployable){
		"nothing": func(*driver.Deployable) {}, "total": func(d *driver.Deployable) { d.NumAccelerators++ },
		"driver": func(d *driver.Deployable) { d.DriverName = "other" },
	} {
		f := newFixture(t, store.Config{})
		found := spec("pci", 0, 1)
		change(&found)
		f.Update(nil, func(tx store.Tx) {
			settled(t, tx.UpdateDeployable(find(tx, "pci").UUID, found, now().Add(time.Hour)))
			if d := find(tx, "pci"); d.UpdatedAt.Equal(now()) != (name == "nothing") {
				t.Errorf("after a change of %s: updated at %v", name, d.UpdatedAt)
			}
		})
	}
}

// imageARQ returns a request for the bitstream instanceB. The keys have the order in which the user wrote them.
func (f fixture) imageARQ(t *testing.T, class string) store.ARQ {
	t.Helper()
	one, required, image := "1", "required", instanceB
	var arqs []store.ARQ
	f.Update(nil, func(tx store.Tx) {
		_, err := tx.CreateProfile(store.Profile{Name: "image", Groups: []store.Group{{
			{Key: "trait:CUSTOM_A", Value: &required}, {Key: "resources:" + class, Value: &one}, {Key: "accel:bitstream_id", Value: &image},
		}}}, now())
		settled(t, err)
		arqs, err = tx.CreateARQs("image", "demo", store.BitstreamRef{}, now())
		settled(t, err)
	})
	return arqs[0]
}

func (f fixture) requested(a store.ARQ) (store.BitstreamRef, error) {
	return store.Find(f.Store, func(tx store.Tx) (store.BitstreamRef, error) { return tx.RequestedBitstream(a) })
}

// Upstream does not know the class of the Rocky specification. Devices of other classes are never programmed, even if
// their group names a bitstream.
func TestTheClassDecidesAboutTheImage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		class            string
		image, withQuirk bool
	}{{"FPGA", true, true}, {"CUSTOM_ACCELERATOR_FPGA", true, false}, {"PGPU", false, false}} {
		for quirks, want := range map[bool]bool{false: tt.image, true: tt.withQuirk} {
			f := newFixture(t, store.Config{Quirks: quirks})
			ref, err := f.requested(f.imageARQ(t, tt.class))
			if err != nil || (ref == store.BitstreamRef{By: store.ByBitstreamID, Value: instanceB}) != want || ref.Named() != want {
				t.Errorf("%s, quirks %t: the image of the request is %v, %v", tt.class, quirks, ref, err)
			}
		}
	}
}

// A caller may hold a request that another client deletes together with its profile.
func TestADeletedRequestHasNoImage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	a := f.imageARQ(t, "FPGA")
	f.Update(nil, func(tx store.Tx) {
		tx.DeleteARQ(a)
		p, _ := tx.ProfileByName(a.Profile)
		if err := tx.DeleteProfile(p); err != nil {
			t.Error(err)
		}
	})
	if ref, err := f.requested(a); err != nil || ref.Named() {
		t.Errorf("the image of the request is %v, %v", ref, err)
	}
}

// The bind that wrote the region stays until Nova has been notified.
func TestARegionIsSharedOnceItIsWritten(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	b := f.started(t, f.imageARQ(t, "FPGA"), "pci", instanceA)
	if _, err := f.bind(f.newARQ(t).UUID, "pci", instanceB); kindOf(err) != store.Conflict {
		t.Errorf("before the end of the bind: %v", err)
	}
	f.Update(nil, func(tx store.Tx) { _ = tx.FinishBind(b, now()) })
	if _, err := f.bind(f.newARQ(t).UUID, "pci", instanceB); err != nil {
		t.Errorf("after the bind: %v", err)
	}
}

// regionOf is the region "pci" with the traits and the class.
func (f fixture) regionOf(t *testing.T, class string, traits ...string) store.Deployable {
	t.Helper()
	found := spec("pci", 0, 1)
	found.Class, found.Traits = class, traits
	f.Update(nil, func(tx store.Tx) {
		settled(t, tx.UpdateDeployable(find(tx, "pci").UUID, found, now()))
	})
	return f.deployable("pci")
}

// A trait has the identifier of a function, not its name.
func TestADriverReportsTheIdentifierOfAFunction(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	region := f.regionOf(t, "FPGA", "CUSTOM_FPGA_FUNCTION_ID_TEST_ZERO")
	for ref, want := range map[store.BitstreamRef]bool{
		{By: store.ByFunctionID, Value: "zero"}:   true,
		{By: store.ByFunctionID, Value: "one"}:    false,
		{By: store.ByFunctionName, Value: "zero"}: false,
	} {
		if got := store.Read(f.Store, func(tx store.Tx) bool { return tx.Carries(region, ref) }); got != want {
			t.Errorf("carries %s: %t", ref, got)
		}
	}
}

// Only regions of another type refuse an image that names the type of its region.
func TestAnImageFitsItsTypeOfRegion(t *testing.T) {
	t.Parallel()
	image := store.Image{ID: instanceB, Properties: map[string]string{"accel:region_id": "aa"}}
	for trait, fits := range map[string]bool{
		"CUSTOM_FPGA_REGION_INTEL_AA": true, "CUSTOM_FPGA_REGION_INTEL_BB": false,
		"CUSTOM_FPGA_INTEL": true, "CUSTOM_CLOUD_REGION_BB": true,
	} {
		f := newFixture(t, store.Config{})
		region := f.regionOf(t, "FPGA", trait)
		f.Update(nil, func(tx store.Tx) {
			if _, err := tx.ClaimUnused(region, image); (err == nil) != fits || err != nil && kindOf(err) != store.Conflict {
				t.Errorf("%s: %v", trait, err)
			}
		})
	}
}

// The trait of a function has the form of the traits that the driver reports.
func TestTheTraitOfAFunctionFollowsTheDriver(t *testing.T) {
	t.Parallel()
	image := store.Image{ID: instanceB, Properties: map[string]string{"accel:function_id": "f-1"}}
	for _, tt := range []struct{ class, trait, want string }{
		{"FPGA", "CUSTOM_FPGA_TEST", "CUSTOM_FPGA_FUNCTION_ID_TEST_F_1"},
		{"CUSTOM_ACCELERATOR_FPGA", "CUSTOM_FPGA_TEST", "CUSTOM_FPGA_FUNCTION_TEST_F_1"},
		{"CUSTOM_ACCELERATOR_FPGA", "CUSTOM_FPGA_TEST_REGION_AA", "CUSTOM_FPGA_TEST_FUNCTION_F_1"},
	} {
		f := newFixture(t, store.Config{})
		region := f.regionOf(t, tt.class, tt.trait)
		got, err := store.Find(f.Store, func(tx store.Tx) (string, error) { return tx.FunctionTrait(region, image) })
		if err != nil || got != tt.want {
			t.Errorf("%s %s: %s, %v; want %s", tt.class, tt.trait, got, err, tt.want)
		}
	}
}

// Only an instance that uses all of a region may program it at run time.
func TestARegionBelongsToOneInstance(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		instances []string
		then      func(f fixture, first string) // what becomes of the first request
		project   string
		owned     bool
	}{
		"no instance":        {nil, nil, "demo", false},
		"one":                {[]string{instanceA}, nil, "demo", true},
		"another project":    {[]string{instanceA}, nil, "other", false},
		"two of an instance": {[]string{instanceA, instanceA}, nil, "demo", true},
		"two instances":      {[]string{instanceA, instanceB}, nil, "demo", false},
		"behind a free one": {[]string{instanceB, instanceA}, func(f fixture, first string) {
			f.release(first, true, unbind)
		}, "demo", true},
		"being bound": {[]string{instanceA}, func(f fixture, first string) {
			f.release(first, true, unbind)
			_, _ = f.bind(first, "pci", instanceA)
		}, "demo", false},
	} {
		f := newFixture(t, store.Config{})
		var first string
		for _, instance := range tt.instances {
			b, err := f.bind(f.newARQ(t).UUID, "pci", instance)
			if err != nil || !f.finish(b) {
				t.Fatal(err)
			}
			if first == "" {
				first = b.ARQ
			}
		}
		if tt.then != nil {
			tt.then(f, first)
		}
		region := f.deployable("pci").UUID
		if got := store.Read(f.Store, func(tx store.Tx) bool { return tx.OwnedBy(region, tt.project) }); got != tt.owned {
			t.Errorf("%s: owned %t", name, got)
		}
	}
}

// The position in the sequence of request ids is written with the change that follows a request.
func TestRequestIDsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	s := store.New(store.Config{RequestIDs: func() uint64 { return 7 }})
	var tables []string
	s.DB().OnCommit(func(changes []sim.RecordChange) {
		for _, c := range changes {
			tables = append(tables, c.Table)
		}
	})
	for _, host := range []string{"a", "b"} {
		s.Update(nil, func(tx store.Tx) { tx.AddAgent(host, "", now()) })
	}
	want := []string{"accelerator.agents", "accelerator.sequences", "accelerator.agents"}
	if diff := cmp.Diff(want, tables); diff != "" || s.RequestIDs() != 7 {
		t.Errorf("%d, tables (-want +got):\n%s", s.RequestIDs(), diff)
	}
}

func unsettled(tx store.Tx) [][]string {
	orphans, restorable := tx.UnsettledMdevs("cn0")
	return [][]string{orphans, restorable}
}
