package fakecyborg_test

import (
	gocmp "cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/testrun"
	"github.com/gocyborg/gocyborg/sim"
)

// things are what a Cyborg and its host's hardware have, by kind and id.
type things map[[2]string]string

// things takes a dump apart, without the times.
func (w *world) things(card *hardware) things {
	d := parsed(w.t, dumped(w.t, w.server))
	all := make(things)
	for kind, table := range map[string]string{
		"device_profile": "device_profiles", "device": "devices", "deployable": "deployables",
		"attribute": "attributes", "attach_handle": "attach_handles", "accelerator_request": "accelerator_requests",
	} {
		for _, row := range d[table] {
			for _, hidden := range []string{"created_at", "updated_at", "attempt", "region"} {
				delete(row, hidden) // are not shown
			}
			all[[2]string{kind, row["uuid"].(string)}] = fmt.Sprint(row)
		}
	}
	for _, h := range w.server.AttachHandles() {
		all[[2]string{"attach_handle", h.UUID}] += h.ARQ
	}
	for _, m := range card.Mdevs() {
		all[[2]string{"mediated_device", m.UUID}] = ""
	}
	card.mu.Lock()
	defer card.mu.Unlock()
	all[[2]string{"region", "cn0_0000:3b:00.0"}] = fmt.Sprint(len(card.images))
	return all
}

// until lists what differs in a later state, as "action kind id".
func (all things) until(after things) []string {
	diff := []string{}
	for key, value := range all {
		if now, still := after[key]; !still {
			diff = append(diff, "deleted "+key[0]+" "+key[1])
		} else if now != value {
			diff = append(diff, "changed "+key[0]+" "+key[1])
		}
	}
	for key := range after {
		if _, before := all[key]; !before {
			diff = append(diff, "created "+key[0]+" "+key[1])
		}
	}
	slices.Sort(diff)
	return diff
}

// randomRequest is one that may well change something.
func (w *world) randomRequest(rng *rand.Rand, profiles []string) sent {
	pick := func(names ...string) string { return names[rng.IntN(len(names))] }
	arq := func() string {
		if list := w.server.ARQs(); len(list) > 0 {
			return list[rng.IntN(len(list))].UUID
		}
		return unknownID
	}
	instance := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", rng.IntN(4))
	device, deployable := w.server.Devices()[rng.IntN(2)].UUID, w.server.Deployables()[rng.IntN(2)]
	provider := pick(vgpuProvider(), fpgaProvider(), fpgaProvider(), unknownID)
	const arqs = "/v2/accelerator_requests"
	switch rng.IntN(16) {
	case 0:
		return sent{method: "POST", path: "/v2/device_profiles", body: fmt.Sprintf(`[{"name":%q,"groups":[{"resources:FPGA":"1"}]}]`, pick("a", "b"))}
	case 1:
		return sent{method: "DELETE", path: "/v2/device_profiles?value=" + pick("a", "b", "a,b", "v", "b,a,x")}
	case 2, 3, 4:
		return sent{method: "POST", path: arqs, body: fmt.Sprintf(`{"device_profile_name":%q}`, pick(profiles...))}
	case 5, 6, 7:
		return sent{method: "PATCH", path: arqs, body: binding(instance, provider, arq())}
	case 8:
		return sent{method: "PATCH", path: arqs, body: binding(instance, provider, arq(), arq())}
	case 9:
		return sent{method: "PATCH", path: arqs, body: unbinding(arq(), arq())}
	case 10:
		return sent{method: "DELETE", path: arqs + "?arqs=" + arq() + "," + arq()}
	case 11:
		return sent{method: "DELETE", path: arqs + "?instance=" + instance}
	case 12:
		return sent{method: "POST", path: "/v2/devices/" + device + "/" + pick("enable", "disable")}
	case 13:
		return sent{method: "POST", path: "/v2/attributes", body: fmt.Sprintf(`{"deployable_id":%d,"key":"k","value":"v"}`, deployable.ID+rng.IntN(2))}
	case 14:
		list := w.server.Attributes()
		return sent{method: "DELETE", path: "/v2/attributes/" + list[rng.IntN(len(list))].UUID}
	}
	body := fmt.Sprintf(`[{"path":"/program","op":"replace","value":[{"image_uuid":%q}]}]`, pick(imageOne, imageUUID, imagePlain, imageBad, imageRegion))
	for deployable.ProviderUUID != fpgaProvider() { // the driver of the tests would program anything
		deployable = w.server.Deployables()[rng.IntN(2)]
	}
	return sent{method: "PATCH", path: "/v2/deployables/" + deployable.UUID + "/program", body: body}
}

// changesWorld is a world with a card of each sort and profiles for them.
func changesWorld(t *testing.T, cfg fakecyborg.Config, opts ...fakecyborg.Option) (*world, *hardware) {
	t.Helper()
	card := newHardware("test", vgpu("af", 3), fpgaCard("FPGA"))
	w := newWorld(t, cfg, []driver.Driver{card}, append(opts, withImages(t))...)
	w.profile("v", `[{"resources:VGPU":"2"}]`)
	for _, name := range []string{"plain", "one", "function", "bad"} {
		w.profile(name, `[{"resources:FPGA":"1",`+fpgaProfiles()[name][0]+`}]`)
	}
	return w, card
}

func TestTheRecordedChangesAreTheDifference(t *testing.T) {
	t.Parallel()
	told := make(map[string]int)
	const later = time.Second // so that nothing changes between a request and the comparison
	for _, cfg := range []fakecyborg.Config{
		{}, {UpstreamQuirks: true}, {BindDelay: later}, {UpstreamQuirks: true, BindDelay: later}, {BindDelay: later, Release: fakecyborg.ReleaseZed},
	} {
		for seed := range uint64(testrun.Of(4, 1)) {
			synctest.Test(t, func(t *testing.T) { walkChanges(t, cfg, seed, told) })
		}
	}
	for _, want := range []string{
		"created device_profile", "deleted device_profile", "created accelerator_request", "changed accelerator_request", "deleted accelerator_request",
		"changed attach_handle", "changed device", "changed deployable", "created attribute", "changed attribute", "deleted attribute",
		"created mediated_device", "deleted mediated_device", "changed region",
	} {
		if told[want] == 0 {
			t.Errorf("the requests never %s", want)
		}
	}
}

// walkChanges sends random requests and compares what each notes with what differs.
func walkChanges(t *testing.T, cfg fakecyborg.Config, seed uint64, told map[string]int) {
	rng := rand.New(rand.NewPCG(seed, 0))
	profiles := []string{"v", "v", "plain", "a"} // whose binds are done at once
	if cfg.BindDelay > 0 {
		profiles = append(profiles, "one", "function", "bad")
	}
	var last sim.Exchange
	w, card := changesWorld(t, cfg, fakecyborg.WithObserver(func(r sim.Exchange) { last = r }))
	for range 60 {
		card.fail(nil, nil)
		switch rng.IntN(12) {
		case 0:
			card.fail(errors.New("no room"), nil)
		case 1:
			card.fail(nil, errors.New("stuck"))
		case 2, 3, 4:
			time.Sleep(2 * time.Second)
		case 5:
			_ = w.server.Report(t.Context()) // cleans up
		}
		synctest.Wait()
		s := w.randomRequest(rng, profiles)
		before, arqs := w.things(card), w.server.ARQs()
		got := w.send(s)
		noted := make(map[string]bool)
		for _, c := range last.Changes {
			noted[c.Action+" "+c.Kind+" "+c.ID] = true
			told[c.Action+" "+c.Kind]++
			if want := steps(arqs, w.server.ARQs(), c.ID); c.Kind == "accelerator_request" && c.Action == "changed" && sorted(difference(c.What)) != sorted(want) {
				t.Fatalf("%+v, seed %d: %s %s notes %q, want %q", cfg, seed, s.method, s.path, c.What, want)
			}
		}
		lines := slices.Collect(maps.Keys(noted))
		slices.Sort(lines)
		if diff := cmp.Diff(before.until(w.things(card)), append([]string{}, lines...)); diff != "" {
			t.Fatalf("%+v, seed %d: %s %s %s answered %d %s: what differs and what is noted (-differs +noted):\n%s\n%v",
				cfg, seed, s.method, s.path, s.body, got.status, got.fault(), diff, last.Changes)
		}
	}
}

// steps describes how a request differs in two lists.
func steps(before, after []fakecyborg.ARQ, id string) string {
	values := func(list []fakecyborg.ARQ) [7]string {
		for _, a := range list {
			if a.UUID == id {
				return [7]string{string(a.State), a.Hostname, a.DeviceRPUUID, a.InstanceUUID, a.ProjectID, a.AttachHandleUUID, a.Failure}
			}
		}
		return [7]string{}
	}
	var list []string
	was, is := values(before), values(after)
	for i, name := range []string{"state", "hostname", "device_rp_uuid", "instance_uuid", "project_id", "attach_handle", "failure"} {
		if was[i] != is[i] {
			list = append(list, name+" "+gocmp.Or(was[i], "none")+" -> "+gocmp.Or(is[i], "none"))
		}
	}
	return strings.Join(list, ", ")
}

// difference is the text of a change without what it is of.
func difference(what string) string {
	_, fields, _ := strings.Cut(what, ": ")
	return fields
}

// sorted puts the parts of a text in one order.
func sorted(text string) string {
	parts := strings.Split(text, ", ")
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// TestTheBackgroundBelongsToNoRequest sends requests during a bind. One request is still open
// when the bind ends.
func TestTheBackgroundBelongsToNoRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		told := make(map[sim.OperationName][]string) // kinds of changes by operation
		observer := fakecyborg.WithObserver(func(r sim.Exchange) {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range r.Changes {
				told[r.Operation] = append(told[r.Operation], c.Kind+" "+c.What)
			}
		})
		card := newHardware("test", vgpu("af", 3))
		faults := new(fault.Set)
		w := newWorld(t, fakecyborg.Config{AsyncBind: true, BindDelay: time.Second}, []driver.Driver{card}, observer, fakecyborg.WithFaults(faults))
		w.profile("v", `[{"resources:VGPU":"1"}]`)
		settled(t, faults.Set(fault.Rule{Operation: fault.DeviceProfileCreate, Action: fault.Delay, Delay: time.Minute, When: fault.After}))
		card.during = func() {
			go func() {
				open := sent{method: "POST", path: "/v2/device_profiles", body: `[{"name":"open","groups":[{"resources:VGPU":"1"}]}]`}
				if r, err := w.trySend(open); err != nil || r.status != http.StatusCreated {
					t.Errorf("the open request: %d %v", r.status, err)
				}
			}()
			time.Sleep(time.Second) // of a minute that it takes
		}
		arq := w.arqs("v")[0]
		w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), http.StatusAccepted, "")
		elapse(2 * time.Minute)
		w.server.CheckBound(t, instanceA, 1)
		handle := w.server.ARQs()[0].AttachHandleUUID
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(map[sim.OperationName][]string{
			fault.DeviceProfileCreate: {"device_profile v", "device_profile open"},
			fault.ARQCreate:           {"accelerator_request of device profile v, group 0"},
			fault.ARQBind: {
				"attach_handle MDEV: held_by none -> " + arq,
				"accelerator_request of device profile v, group 0: state Initial -> BindStarted, hostname none -> cn0, device_rp_uuid none -> " + vgpuProvider() +
					", instance_uuid none -> " + instanceA + ", attach_handle none -> " + handle,
			},
		}, told); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}

func TestChangesOfASpawnInWords(t *testing.T) {
	t.Parallel()
	var last sim.Exchange
	faults := new(fault.Set)
	w, _ := changesWorld(t, fakecyborg.Config{}, fakecyborg.WithObserver(func(r sim.Exchange) { last = r }), fakecyborg.WithFaults(faults))
	w.profile("x", `[{"resources:VGPU":"1"}]`)
	arq := w.arqs("x")[0]
	check := func(want ...sim.Change) {
		t.Helper()
		if diff := cmp.Diff(want, last.Changes); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", last.Method, last.Path, diff)
		}
	}
	check(sim.Change{Action: "created", Kind: "accelerator_request", ID: arq, What: "of device profile x, group 0"})
	settled(t, faults.Set(fault.Rule{Operation: fault.ARQBind, Action: fault.Status}))
	w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), http.StatusInternalServerError, "")
	check()
	settled(t, faults.Set(fault.Rule{Operation: fault.ARQBind, Action: fault.Status, When: fault.After}))
	w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), http.StatusInternalServerError, "")
	handle := w.server.ARQs()[0].AttachHandleUUID
	check(
		sim.Change{Action: "changed", Kind: "attach_handle", ID: handle, What: "MDEV: held_by none -> " + arq},
		sim.Change{
			Action: "changed", Kind: "accelerator_request", ID: arq, What: "of device profile x, group 0: state Initial -> Bound, hostname none -> cn0, device_rp_uuid none -> " +
				vgpuProvider() + ", instance_uuid none -> " + instanceA + ", attach_handle none -> " + handle,
		},
		sim.Change{Action: "created", Kind: "mediated_device", ID: handle, What: "nvidia-222 on 0000:af:00.0"},
	)
	w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), http.StatusNoContent, "")
	check(
		sim.Change{Action: "deleted", Kind: "accelerator_request", ID: arq, What: "of device profile x, group 0"},
		sim.Change{Action: "deleted", Kind: "mediated_device", ID: handle, What: "nvidia-222 on 0000:af:00.0"},
		sim.Change{Action: "changed", Kind: "attach_handle", ID: handle, What: "MDEV: held_by " + arq + " -> none"},
	)
	w.want(w.delete("/v2/accelerator_requests?instance="+instanceA), http.StatusNoContent, "")
	check()
}
