package store_test

import (
	"errors"
	"testing"
	"time"

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
	b, err := f.bind(f.newARQ(t).UUID, "pci", instanceA)
	if err != nil {
		t.Fatal(err)
	}
	f.Update(nil, func(tx store.Tx) { tx.FailBind(b, errors.New("the card is gone"), false, now()) })
	if a := f.arq(b.ARQ); a.State != store.BindFailed || a.Failure != "the card is gone" {
		t.Errorf("the request is %s: %q", a.State, a.Failure)
	}
}

// Two workers at one mediated device would remove what a guest uses.
func TestAHandleHasOneWorker(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	b, err := f.bind(f.newARQ(t).UUID, "mdev", instanceA)
	if err != nil {
		t.Fatal(err)
	}
	f.Update(nil, func(tx store.Tx) {
		_, first := tx.BeginBindWork(b)
		_, second := tx.BeginBindWork(b)
		_, other := tx.BeginWork(store.WorkRemove, b.Handle)
		if !first || second || other {
			t.Errorf("workers: %t, %t, %t", first, second, other)
		}
		if err := tx.SetARQState(b.ARQ, store.BindFailed, now()); err == nil {
			t.Error("the state was set under the agent's hands")
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
	})
}

func TestAStateThatIsSetOvertakesTheBind(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	b, err := f.bind(f.newARQ(t).UUID, "pci", instanceA)
	if err != nil {
		t.Fatal(err)
	}
	f.Update(nil, func(tx store.Tx) {
		if err := tx.SetARQState(b.ARQ, store.UnbindFailed, now()); err != nil {
			t.Fatal(err)
		}
	})
	if f.finish(b) || f.arq(b.ARQ).State != store.UnbindFailed {
		t.Errorf("the bind ended after all: %s", f.arq(b.ARQ).State)
	}
}

// An agent that goes down in the middle of a restoration has not tried.
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
		tx.MarkProvisioning("cn0", now())
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

// Attributes of users are Cyborg's alone: a report neither deletes nor sends them.
func TestAttributesOfUsersStay(t *testing.T) {
	t.Parallel()
	for _, quirks := range []bool{false, true} {
		f := newFixture(t, store.Config{Quirks: quirks})
		pci := f.deployable("pci")
		f.Update(nil, func(tx store.Tx) {
			before := len(tx.Attributes(pci.UUID))
			user := tx.CreateAttribute(pci.UUID, "trait9", "CUSTOM_OF_USER", now())
			for _, trait := range tx.Reported(pci).Traits {
				if trait == user.Value {
					t.Error("Placement gets the attribute of a user")
				}
			}
			if err := tx.UpdateDeployable(pci.UUID, spec("pci", 0, 1), now()); err != nil {
				t.Fatal(err)
			}
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

// The order of the keys is that of the user.
func TestATraitBeforeTheClassDoesNotKeepTheImage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, store.Config{})
	one, required, image := "1", "required", instanceB
	f.Update(nil, func(tx store.Tx) {
		_, err := tx.CreateProfile(store.Profile{Name: "fpga", Groups: []store.Group{{
			{Key: "trait:CUSTOM_A", Value: &required}, {Key: "resources:FPGA", Value: &one}, {Key: "accel:bitstream_id", Value: &image},
		}}}, now())
		if err != nil {
			t.Fatal(err)
		}
		arqs, err := tx.CreateARQs("fpga", "demo", store.BitstreamRef{}, now())
		if err != nil {
			t.Fatal(err)
		}
		if ref, err := tx.RequestedBitstream(arqs[0]); err != nil || ref.Value != image || ref.By != store.ByBitstreamID {
			t.Errorf("the image of the request is %v, %v", ref, err)
		}
	})
}
