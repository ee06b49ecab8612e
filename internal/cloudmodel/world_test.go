package cloudmodel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// world is a cloud with its agents, guests and instances.
type world struct {
	cloud     *simcloud.Cloud
	guests    *hypervisor
	agents    []*agent
	instances map[string]*instance
	order     []string // of the instances
	profiles  map[string][]map[string]string
	missing   []fault.Rule     // of the devices that have vanished
	named     []spawn.Leftover // what errors and results have named since the last reconciliation
	news      []spawn.Leftover // of these, what the present step has named
	crashed   bool             // a process has died since
	done      map[string]int   // how many actions did their work, and how many failed
	sight     func(view)       // gets what the judge sees
	problems  []string
	log       []string
	mu        sync.Mutex
}

// images are the bitstreams of two functions for the cards with an Arria 10.
var images = []simcloud.Image{
	bitstream("cccccccc-0000-4000-8000-000000000001", "d8424dc4-a4a3-c413-f89e-433683f9040b", "gzip"),
	bitstream("cccccccc-0000-4000-8000-000000000002", "9aeffe5f-8457-0612-c000-c9660d824272", "crypto"),
}

func bitstream(id, function, name string) simcloud.Image {
	return simcloud.Image{
		ID: id, Name: name, Properties: map[string]string{"accel:function_id": function, "accel:function_name": name},
		Data: `{"afu-image": {"interface-uuid": "9926ab6d-6c92-5a68-aabc-a7d84c545738", "accelerator-clusters": [{"accelerator-type-uuid": "` + function + `"}]}}`,
	}
}

const arria10 = "trait:CUSTOM_FPGA_INTEL_PAC_ARRIA10"

// profiles are the model's profiles in addition to the default ones.
var profiles = []simcloud.DeviceProfile{
	{Name: "two", Groups: []map[string]string{{"resources:PGPU": "2"}}},
	{Name: "pair", Groups: []map[string]string{{"resources:PGPU": "1"}, {"resources:VGPU": "1", "trait:CUSTOM_GPU_NVIDIA": "required"}}},
	{Name: "gzip", Groups: []map[string]string{{"resources:FPGA": "1", arria10: "required", "accel:function_id": "d8424dc4-a4a3-c413-f89e-433683f9040b"}}},
	{Name: "crypto", Groups: []map[string]string{{"resources:FPGA": "1", arria10: "required", "accel:function_name": "crypto"}}},
	{Name: "image", Groups: []map[string]string{{"resources:FPGA": "1", arria10: "required", "accel:bitstream_id": "cccccccc-0000-4000-8000-000000000001"}}},
	{Name: "nic", Groups: []map[string]string{{"resources:CUSTOM_NIC": "1", "trait:CUSTOM_NIC_X710": "required"}}},
	{Name: "changes", Groups: []map[string]string{{"resources:PGPU": "1"}}},
}

// changes are the successive contents of the profile "changes".
var changes = [][]map[string]string{
	{{"resources:VGPU": "2", "trait:CUSTOM_GPU_NVIDIA": "required"}},
	{{"resources:PGPU": "1"}, {"resources:PGPU": "1"}},
	{{"resources:PGPU": "1"}},
}

// model is a cloud of so many hosts, each with whole GPUs, a card of vGPUs, FPGAs, the fake device and a network card.
func model(hosts int, slow, novaMdevs bool) simcloud.Model {
	m := simcloud.DefaultModel()
	data, err := json.Marshal(m.Hosts[0])
	if err != nil {
		panic(err)
	}
	m.Hosts = nil
	for n := range hosts {
		name := fmt.Sprint("cn", n)
		var h simcloud.Host
		if err := json.Unmarshal([]byte(strings.ReplaceAll(string(data), `"cn0`, `"`+name)), &h); err != nil {
			panic(err)
		}
		nic := driver.Device{
			Type: driver.TypeNIC, Vendor: "8086",
			ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: driver.Info{"domain": "0000", "bus": "0d", "device": "00", "function": "0"}},
			Deployables: []driver.Deployable{{
				Name: name + "_0000:0d:00.0", NumAccelerators: 2, DriverName: "intel", Class: "CUSTOM_NIC", Traits: []string{"CUSTOM_NIC_X710"},
			}},
		}
		for _, function := range []string{"1", "2"} {
			nic.Deployables[0].AttachHandles = append(nic.Deployables[0].AttachHandles, driver.AttachHandle{Type: driver.HandlePCI, Info: driver.Info{
				"domain": "0000", "bus": "0d", "device": "0", "function": function, "physical_network": "PHYNET1",
			}})
		}
		h.Devices = append(h.Devices, nic)
		m.Hosts = append(m.Hosts, h)
	}
	m.DeviceProfiles = append(m.DeviceProfiles, profiles...)
	m.Images = images
	m.Cyborg.RuntimeProgramming = true
	if novaMdevs {
		m.Cyborg.MdevCreation = fakecyborg.MdevsByNova
	}
	if slow {
		m.Cyborg.AsyncBind, m.Cyborg.BindDelay = true, 2*time.Second
		m.Cyborg.ReadLag, m.Cyborg.ClockSkew = 300*time.Millisecond, 5*time.Minute
	}
	return m
}

func newWorld(t *testing.T, s script) (*world, error) {
	t.Helper()
	w := &world{
		cloud: simcloud.Run(t, model(s.Hosts, s.Slow, s.NovaMdevs)), instances: map[string]*instance{}, profiles: map[string][]map[string]string{}, done: map[string]int{},
	}
	for _, p := range w.cloud.Model().DeviceProfiles {
		w.profiles[p.Name] = p.Groups
	}
	w.guests = newHypervisor(w.cloud)
	w.cloud.Faults().RegisterWork(work()...)
	for n := range s.Agents {
		a := &agent{world: w, number: n, tokens: kinds[n]}
		if err := a.start(t.Context()); err != nil {
			return nil, err
		}
		w.agents = append(w.agents, a)
	}
	return w, nil
}

func (w *world) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// list is the instances in their order.
func (w *world) list() (all []*instance) {
	for _, id := range w.order {
		if i := w.instances[id]; i != nil {
			all = append(all, i)
		}
	}
	return all
}

// reconcileHosts frees what belongs to no living instance, host by host as the agents of the hosts do: an instance that was
// evacuated does not live on its old host.
func (w *world) reconcileHosts(ctx context.Context, a *agent) (found []spawn.Leftover, err error) {
	for _, host := range w.cloud.HostNames() {
		of, failed := a.own.Reconcile(ctx, spawn.ReconcileOpts{Hosts: []string{host}, Free: true, Living: func(_ context.Context, instance string) (bool, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			i := w.instances[instance]
			return i != nil && (i.Host == host || !i.isWhole()), nil
		}})
		found, err = append(found, of...), errors.Join(err, failed)
	}
	return found, err
}

// leftoversOf lists what an error names.
func leftoversOf(err error) (list []spawn.Leftover) {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case nil:
	case *spawn.Error:
		list = append(list, e.Leftovers...)
		list = append(list, leftoversOf(e.Err)...)
	case interface{ Unwrap() error }:
		list = leftoversOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			list = append(list, leftoversOf(each)...)
		}
	}
	return list
}

// remember keeps what a call has named.
func (w *world) remember(result *spawn.Result, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := leftoversOf(err)
	if result != nil {
		list = slices.Concat(list, result.Leftovers, result.Suspects)
	}
	w.named, w.news = append(w.named, list...), append(w.news, list...)
}

// isNamed reports whether a call, or an agent as a suspect, has named a thing.
func (w *world) isNamed(v view, what thing) bool {
	all := slices.Clone(w.named)
	for _, a := range w.agents {
		all = append(all, a.own.Suspects()...)
		all = append(all, a.flow.Suspects()...)
		all = append(all, a.compute.Suspects()...)
		all = append(all, a.bare.Suspects()...)
	}
	return slices.ContainsFunc(all, func(l spawn.Leftover) bool { return v.isOf(l, what) })
}

// isOf reports whether a leftover names a thing. A mediated device goes with the request whose handle has its UUID.
func (v view) isOf(l spawn.Leftover, what thing) bool {
	n := slices.IndexFunc(v.arqs, func(a arq) bool {
		return a.UUID == what.id || what.kind == simcloud.LeakMdev && a.Handle == what.id
	})
	var a arq
	if n >= 0 {
		a = v.arqs[n]
	} else if what.kind == simcloud.LeakMdev { // Cyborg shows the handle of a Bound request only
		return slices.ContainsFunc(v.arqs, func(a arq) bool {
			return a.State != "Bound" && a.Host == v.mdevs[what.id] && v.isOf(l, thing{simcloud.LeakARQ, a.UUID})
		})
	}
	switch l.Kind {
	case spawn.LeftoverARQ:
		return n >= 0 && l.ID == a.UUID
	case spawn.LeftoverARQs:
		return n >= 0 && l.ID == a.Instance
	case spawn.LeftoverAllocation:
		return what.kind == simcloud.LeakAllocation && l.ID == what.id
	case spawn.LeftoverCreate:
		return n >= 0 && l.ID == a.Profile && a.Instance == "" && !a.CreatedAt.Before(l.Since.Truncate(time.Second))
	}
	return false
}

// settle is how long, in virtual time, a step waits until what was delayed has come true, and until an ARQ without an
// instance is an orphan.
const settle = 31 * time.Minute

// play plays a script and returns what is wrong.
func (w *world) play(ctx context.Context, s script) (problems []string) {
	defer func() {
		if r := recover(); r != nil {
			problems = append(problems, fmt.Sprintf("panic: %v\n%s", r, debug.Stack()))
		}
	}()
	for n, step := range s.Steps {
		w.note("step %d", n)
		w.step(ctx, step)
		if len(w.problems) > 0 {
			return w.problems
		}
	}
	w.note("the end")
	w.end(ctx)
	return w.problems
}

// step does the actions of a step at the same time, and judges when all is quiet.
func (w *world) step(ctx context.Context, s step) {
	undisturbed := len(s.Faults) == 0
	if err := w.cloud.Faults().Set(append(slices.Clone(w.missing), s.Faults...)...); err != nil {
		w.wrong("%v", err)
		return
	}
	w.news = nil
	type prepared struct {
		action
		by *agent
		do func(context.Context) error
	}
	var all []prepared
	for _, act := range s.Actions {
		by, do := w.prepare(&act, len(s.Actions))
		if do == nil {
			continue
		}
		if _, isOperation := operations[act.Do]; !isOperation && act.Do != "spawn" {
			act.CutAt, act.DieAt = 0, 0
		}
		all = append(all, prepared{act, by, do})
		undisturbed = undisturbed && len(s.Actions) == 1 && act.CutAt == 0 && act.DieAt == 0 && act.Do != "host down"
	}
	var running sync.WaitGroup
	for k, p := range all {
		running.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					w.wrong("panic in %s: %v\n%s", p.Do, r, debug.Stack())
				}
			}()
			time.Sleep(time.Duration(k+1) * 7013 * time.Microsecond)
			limited, cancel := context.WithCancel(ctx)
			defer cancel()
			if p.CutAt > 0 || p.DieAt > 0 {
				p.by.disturb(p.CutAt, p.DieAt, cancel)
			}
			err := p.do(limited)
			w.note("%s of agent %d: %v", p.Do, p.by.number, err)
			w.count(p.Do, err)
			w.remember(nil, err)
			if undisturbed && !isRefusal(err) {
				w.wrong("%s fails without a fault: %v", p.Do, err)
			}
		})
	}
	running.Wait()
	w.quiet(ctx)
	w.crashed = w.crashed || slices.ContainsFunc(w.agents, func(a *agent) bool { return a.line.alive() != nil })
	v, err := w.look(ctx)
	if err != nil {
		w.wrong("look: %v", err)
		return
	}
	if w.sight != nil {
		w.sight(v)
	}
	w.judge(v, s.Faults)
	w.revive(ctx)
	for _, i := range w.list() {
		if i.again != nil {
			w.mend(ctx, i)
		}
	}
	w.quiet(ctx)
	if v, err = w.look(ctx); err != nil {
		w.wrong("look: %v", err)
		return
	}
	w.news = nil // which may be gone again
	w.judge(v, nil)
	w.programmed()
	for _, text := range w.partial(v) {
		w.wrong("%s", text)
	}
	for _, text := range w.disagree(v) {
		w.wrong("%s", text)
	}
}

// count counts what an action came to.
func (w *world) count(do string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.done[do]++
	}
}

// isRefusal reports whether an error is the answer to what cannot be done.
func isRefusal(err error) bool {
	return err == nil || errors.Is(err, spawn.ErrNoCandidates) || errors.Is(err, spawn.ErrNoAlternate) || errors.Is(err, spawn.ErrBlocked)
}

// quiet ends the faults and waits until nothing is on its way.
func (w *world) quiet(ctx context.Context) {
	if err := w.cloud.Faults().Set(w.missing...); err != nil {
		w.wrong("%v", err)
	}
	for _, a := range w.agents {
		a.disturb(0, 0, nil)
	}
	time.Sleep(settle)
	_ = w.cloud.Cyborg.Report(ctx) // a failure shows in what the judge sees
	time.Sleep(time.Minute)
}

// programmed compares how often Cyborg was asked to program a region with how often an agent was. A request whose token has
// expired is sent again.
func (w *world) programmed() {
	sent := 0
	for _, r := range w.cloud.Requests() {
		if r.Operation == fault.DeployableProgram && r.Status != http.StatusUnauthorized {
			sent++
		}
	}
	if calls := w.done["calls of Program"]; sent > calls {
		w.wrong("Cyborg was asked %d times to program a region, by %d calls", sent, calls)
	}
}

// judge compares what is there with the living instances and with what was named.
func (w *world) judge(v view, faults []fault.Rule) {
	for _, text := range w.twice(v) {
		w.wrong("%s", text)
	}
	if w.crashed {
		return // a dead process names nothing
	}
	for what, text := range v.ownerless(func(instance string) bool { return w.instances[instance] != nil }) {
		if !w.isNamed(v, what) {
			w.wrong("no error names: %s", text)
		}
	}
	for _, p := range w.guests.places() {
		isNamed := slices.ContainsFunc(w.named, func(l spawn.Leftover) bool { return l.Kind == spawn.LeftoverGuest && l.ID == p.instance })
		if w.instances[p.instance] == nil && !w.guests.isDown(p.host) && !isNamed {
			w.wrong("no error names: host %s has a guest of instance %s", p.host, p.instance)
		}
	}
	isLate := slices.ContainsFunc(faults, func(r fault.Rule) bool { return r.Delay > 0 })
	for _, l := range w.news {
		if l.Certain && !isLate && !w.isThere(v, l) {
			w.wrong("it is named as certain, and not there: %s", l)
		}
	}
}

// isThere reports whether what a leftover names exists.
func (w *world) isThere(v view, l spawn.Leftover) bool {
	switch l.Kind {
	case spawn.LeftoverARQ:
		return slices.ContainsFunc(v.arqs, func(a arq) bool { return a.UUID == l.ID })
	case spawn.LeftoverARQs:
		return slices.ContainsFunc(v.arqs, func(a arq) bool { return a.Instance == l.ID })
	case spawn.LeftoverAllocation:
		return v.held[l.ID] != nil
	case spawn.LeftoverGuest:
		return slices.ContainsFunc(w.guests.places(), func(p place) bool { return p.instance == l.ID })
	}
	return true
}

// revive starts the agents whose processes have died, and frees what they, or moves, have left.
func (w *world) revive(ctx context.Context) {
	for _, a := range w.agents {
		if a.line.alive() == nil {
			continue
		}
		if err := a.start(ctx); err != nil {
			w.wrong("agent %d does not start again: %v", a.number, err)
		}
	}
	movedPartly := func(l spawn.Leftover) bool { // an evacuation names what it left of the old host
		i := w.instances[l.ID]
		return l.Kind == spawn.LeftoverAllocation && i != nil && i.again == nil
	}
	if w.crashed || slices.ContainsFunc(w.named, movedPartly) {
		if err := w.reconcile(ctx, w.agents[0]); err != nil {
			w.wrong("reconcile: %v", err)
		}
	}
}

// reconcile frees what belongs to no living instance. What it cannot free is of hosts that are down.
func (w *world) reconcile(ctx context.Context, a *agent) error {
	if err := w.guests.removeUnknown(w.instances); err != nil {
		return err
	}
	v, err := w.look(ctx)
	if err != nil {
		return err
	}
	for consumer, held := range v.held { // an instance without accelerators is Nova's affair
		_, there := held[v.root(v.host(slices.Collect(maps.Keys(held))[0]))]
		if w.instances[consumer] == nil && len(held) == 1 && there {
			if _, err := w.send(ctx, http.MethodDelete, "/placement/allocations/"+consumer, ""); err != nil {
				return err
			}
		}
	}
	for _, of := range v.arqs { // that Cyborg kept when their instance was evacuated
		i := w.instances[of.Instance]
		if i == nil || i.busy || i.again != nil || of.Host == i.Host || w.guests.isDown(of.Host) {
			continue
		}
		if mdevs, ok := a.hypervisor().(spawn.MdevRemover); ok {
			if err := mdevs.RemoveMdev(ctx, spawn.Instance{UUID: of.Instance, Host: of.Host}, cyborgclient.ARQ{AttachHandleUUID: of.Handle}); err != nil {
				return err
			}
		}
		if err := a.own.Cyborg().DeleteARQs(ctx, []string{of.UUID}); err != nil {
			return err
		}
	}
	found, err := w.reconcileHosts(ctx, a)
	if err != nil && (!errors.Is(err, spawn.ErrLeftover) || a.line.alive() != nil || ctx.Err() != nil) {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.named = slices.DeleteFunc(w.named, func(l spawn.Leftover) bool { // of a living instance, on a host that is down
		return !slices.ContainsFunc(v.arqs, func(of arq) bool { return of.UUID == l.ID && w.guests.isDown(of.Host) })
	})
	for _, l := range found {
		if l.Err != nil {
			w.named = append(w.named, l)
		}
	}
	w.crashed = false
	if err != nil && len(w.downHosts()) == 0 {
		return err
	}
	return nil
}

// mend repeats the operation of an instance that failed, without faults. An operation that cannot succeed, such as an
// evacuation without another host, ends in a deletion, at the latest when all hosts are up.
func (w *world) mend(ctx context.Context, i *instance) {
	a := w.agents[i.owner]
	err := i.again(ctx, a)
	w.remember(nil, err)
	w.note("mend %s of %s: %v", i.doing, i.UUID, err)
	if g, _ := w.guests.at(place{i.UUID, i.Host}); err == nil && i.runs && g.started == "" && w.instances[i.UUID] != nil {
		err = a.ops.Start(ctx, i.Instance) // it was off while the operation was repeated
	}
	if err == nil {
		i.again = nil
		return
	}
	for _, at := range w.guests.places() {
		if at.instance == i.UUID && at.host != i.Host && !w.guests.isDown(at.host) && errors.Is(err, spawn.ErrMoved) {
			i.Host, i.ARQs, err = at.host, nil, spawn.ErrNoAlternate // it was moved by a process that died
			break
		}
	}
	if !isRefusal(err) && len(w.downHosts()) == 0 && !errors.Is(err, spawn.ErrLeftover) {
		w.wrong("%s of instance %s fails again, without a fault: %v", i.doing, i.UUID, err)
		return
	}
	for range 2 {
		if err = remove(ctx, a, i); err == nil {
			return
		}
		w.remember(nil, err)
		w.note("delete %s: %v", i.UUID, err)
		time.Sleep(settle)
	}
	if len(w.downHosts()) == 0 { // otherwise again once all hosts are up: one may have its guest
		w.wrong("instance %s cannot be deleted: %v", i.UUID, err)
	}
}

// end brings all hosts and devices back, deletes all instances and looks whether the cloud is as it was.
func (w *world) end(ctx context.Context) {
	w.missing = nil
	w.quiet(ctx)
	for _, host := range w.cloud.HostNames() {
		if w.guests.isDown(host) {
			if err := w.hostUp(ctx, host); err != nil {
				w.wrong("host %s does not come up: %v", host, err)
			}
		}
	}
	for _, i := range w.list() {
		if i.again != nil {
			w.mend(ctx, i)
		}
	}
	for _, i := range w.list() {
		err := remove(ctx, w.agents[i.owner], i)
		w.remember(nil, err)
		if err != nil {
			w.wrong("in the end instance %s of agent %d cannot be deleted: %v", i.UUID, i.owner, err)
		}
	}
	w.quiet(ctx)
	if err := w.reconcile(ctx, w.agents[0]); err != nil {
		w.wrong("in the end: reconcile: %v", err)
	}
	w.quiet(ctx)
	v, err := w.look(ctx)
	if err != nil {
		w.wrong("look: %v", err)
		return
	}
	for _, text := range v.ownerless(func(string) bool { return false }) {
		w.wrong("in the end: %s", text)
	}
	for _, text := range w.disagree(v) {
		w.wrong("in the end: %s", text)
	}
	for _, p := range w.guests.places() {
		w.wrong("in the end there is a guest of instance %s on host %s", p.instance, p.host)
	}
	if len(w.cloud.HostNames()) == 2 { // it costs as much as ten steps
		w.fill(ctx, v)
	}
}

// fill gives every whole GPU and vGPU away once more.
func (w *world) fill(ctx context.Context, v view) {
	inventories, err := w.inventories(ctx, v)
	if err != nil {
		w.wrong("inventories: %v", err)
		return
	}
	for class, profile := range map[string]string{"PGPU": "gpu", "VGPU": "vgpu"} {
		want := inventories[class]
		for n := 0; ; n++ {
			req := spawn.Request{Instance: fmt.Sprintf("ffffffff-0000-4000-8000-%012x", n), Flavor: flavor(profile)}
			if class == "VGPU" {
				req.Instance = fmt.Sprintf("eeeeeeee-0000-4000-8000-%012x", n)
			}
			_, err := w.agents[0].flow.Run(ctx, req)
			if err == nil {
				continue
			}
			if n != want || !errors.Is(err, spawn.ErrNoCandidates) {
				w.wrong("in the end %d of %d devices of class %s can be given away: %v", n, want, class, err)
			}
			break
		}
	}
}

// send sends a request as an administrator.
func (w *world) send(ctx context.Context, method, path, body string) (status int, err error) {
	admin, err := w.cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, method, w.cloud.URL()+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Auth-Token", admin.Token())
	req.Header.Set("Content-Type", "application/json")
	answer, err := w.cloud.Transport().RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}
