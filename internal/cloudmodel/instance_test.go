package cloudmodel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/requestspec"
)

const (
	flavorVCPUs  = 2
	flavorMemory = 2048
	flavorDisk   = 20
)

// flavor asks for a device profile; "" for none.
func flavor(profile string) requestspec.Flavor {
	f := requestspec.Flavor{Name: "accel." + profile, VCPUs: flavorVCPUs, MemoryMB: flavorMemory, RootGB: flavorDisk}
	if profile != "" {
		f.ExtraSpecs = map[string]string{requestspec.DeviceProfileKey: profile}
	}
	return f
}

// imageOf is what the bind of a device profile writes into the region.
var imageOf = map[string]string{"gzip": images[0].ID, "crypto": images[1].ID, "image": images[0].ID}

// group is a group of a device profile with the class of its devices.
type group struct {
	profile string
	number  int
	class   string
}

// instance is a living instance.
type instance struct {
	spawn.Instance
	owner   int // the agent
	profile string
	project string
	want    map[group]int // how many requests of each group it has
	runs    bool
	rescued []byte // the saved domain of a guest in rescue
	busy    bool
	added   string // the profile whose devices it got while it ran
	image   string // the bitstream of its region, empty if that is unknown, as after its host was down
	nova    string // the mediated device of Nova's vGPU that it has

	// After an operation that failed:
	doing string
	again func(ctx context.Context, a *agent) error
}

// isWhole reports whether the instance is to have all that it asks for.
func (i *instance) isWhole() bool { return i.again == nil && !i.busy }

// classOf is the class of the devices of the request's group.
func (i *instance) classOf(a arq) string {
	for g := range i.want {
		if g.profile == a.Profile && g.number == a.Group {
			return g.class
		}
	}
	return "?"
}

// wants is what device profiles ask for.
func (w *world) wants(profiles ...string) map[group]int {
	want := map[group]int{}
	for _, profile := range profiles {
		for number, of := range w.profiles[profile] {
			for key, value := range of {
				if class, isResource := strings.CutPrefix(key, "resources:"); isResource {
					n, err := strconv.Atoi(value)
					if err != nil {
						panic(err)
					}
					want[group{profile, number, class}] = n
				}
			}
		}
	}
	return want
}

// wantsOf is what the instance asks for with the profiles of today.
func (w *world) wantsOf(i *instance) map[group]int {
	names := []string{i.profile}
	for _, p := range i.Ports {
		names = append(names, p.DeviceProfile)
	}
	if i.added != "" {
		names = append(names, i.added)
	}
	return w.wants(names...)
}

// operation is what can be done to an instance.
type operation struct {
	fits func(w *world, i *instance) bool
	do   func(ctx context.Context, a *agent, i *instance, with int) error
}

func isUp(w *world, i *instance) bool    { return i.Host != "" && !w.guests.isDown(i.Host) }
func isDown(w *world, i *instance) bool  { return i.Host != "" && w.guests.isDown(i.Host) }
func running(w *world, i *instance) bool { return isUp(w, i) && i.runs && i.rescued == nil }
func hasARQ(i *instance) bool            { return len(i.want) > 0 }

// restorable reports whether the instance has only the devices of its profile, which an operation restores.
func restorable(i *instance) bool { return i.added == "" && i.nova == "" }

var operations = map[string]operation{
	"delete": {func(w *world, i *instance) bool { return !isDown(w, i) }, func(ctx context.Context, a *agent, i *instance, _ int) error {
		return remove(ctx, a, i)
	}},
	"local delete": {isDown, func(ctx context.Context, a *agent, i *instance, _ int) error { return remove(ctx, a, i) }},
	"stop": {running, func(ctx context.Context, a *agent, i *instance, _ int) error {
		err := a.ops.Stop(ctx, i.Instance)
		i.runs = i.runs && err != nil
		return err
	}},
	"start": {func(w *world, i *instance) bool { return isUp(w, i) && !i.runs && i.rescued == nil }, func(ctx context.Context, a *agent, i *instance, _ int) error {
		err := a.ops.Start(ctx, i.Instance)
		i.runs = i.runs || err == nil
		return err
	}},
	"soft reboot": {running, func(ctx context.Context, a *agent, i *instance, _ int) error {
		return a.ops.SoftReboot(ctx, i.Instance)
	}},
	"hard reboot": {func(w *world, i *instance) bool { return running(w, i) && i.nova == "" }, func(ctx context.Context, a *agent, i *instance, with int) error {
		if with%2 == 0 {
			return a.ops.HardReboot(ctx, i.Instance, nil)
		}
		return a.ops.HardReboot(ctx, i.Instance, anotherDomain(i))
	}},
	"rebuild": {func(w *world, i *instance) bool { return running(w, i) && hasARQ(i) }, func(ctx context.Context, a *agent, i *instance, _ int) error {
		return a.ops.Rebuild(ctx, i.Instance, anotherDomain(i))
	}},
	"rescue": {func(w *world, i *instance) bool { return running(w, i) && i.nova == "" }, func(ctx context.Context, a *agent, i *instance, _ int) error {
		saved, err := a.ops.Rescue(ctx, i.Instance, domainxml.NewDomain(domainxml.DomainOpts{Name: "rescue"}))
		if saved != nil && err == nil {
			i.rescued = saved
		}
		return err
	}},
	"unrescue": {func(w *world, i *instance) bool { return isUp(w, i) && i.rescued != nil && i.runs }, func(ctx context.Context, a *agent, i *instance, _ int) error {
		err := a.ops.Unrescue(ctx, i.Instance, i.rescued)
		if err == nil {
			i.rescued = nil
		}
		return err
	}},
	"shelve offload": {func(w *world, i *instance) bool { return running(w, i) && len(i.Ports) == 0 && restorable(i) }, func(ctx context.Context, a *agent, i *instance, _ int) error {
		err := a.freed(ctx, a.ops.ShelveOffload(ctx, i.Instance))
		if err == nil {
			i.Host, i.ARQs, i.runs, i.want = "", nil, false, map[group]int{}
		}
		return err
	}},
	"unshelve": {func(_ *world, i *instance) bool { return i.Host == "" }, func(ctx context.Context, a *agent, i *instance, _ int) error {
		result, err := a.ops.Unshelve(ctx, i.Instance, spawn.MoveOpts{Down: a.downHosts()})
		return a.moved(i, result, err)
	}},
	"evacuate": {func(w *world, i *instance) bool {
		return isDown(w, i) && i.rescued == nil && len(i.Ports) == 0 && restorable(i)
	}, func(ctx context.Context, a *agent, i *instance, _ int) error {
		opts := spawn.MoveOpts{Down: slices.DeleteFunc(a.downHosts(), func(host string) bool { return host == i.Host })}
		result, err := a.ops.Evacuate(ctx, i.Instance, opts)
		return a.moved(i, result, err)
	}},
	"resume": {func(w *world, i *instance) bool { return isUp(w, i) && i.rescued == nil }, func(ctx context.Context, a *agent, i *instance, _ int) error {
		err := a.ops.ResumeAfterHostReboot(ctx, i.Instance)
		i.runs = i.runs || err == nil
		return err
	}},
	"program": {func(w *world, i *instance) bool {
		return running(w, i) && slices.Contains([]string{"fpga", "gzip", "crypto", "image"}, i.profile) && len(i.ARQs) > 0
	}, func(ctx context.Context, a *agent, i *instance, with int) error {
		request := spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0]}
		switch with % 3 {
		case 0:
			request.Bitstream = images[with/3%2].ID
		case 1:
			request.FunctionID = images[with/3%2].Properties["accel:function_id"]
		default:
			request.FunctionName = images[with/3%2].Properties["accel:function_name"]
		}
		a.count("calls of Program", nil)
		done, err := a.flow.Program(ctx, request)
		if i.image = ""; err == nil {
			i.image = done.Image
		}
		if errors.Is(err, spawn.ErrProgram) || a.tokens.user != "admin" {
			return nil // the ARQ stays Bound, and Cyborg's policy lets administrators alone do it
		}
		return err
	}},
	"add devices": {func(w *world, i *instance) bool {
		return running(w, i) && i.profile == "" && restorable(i) && len(i.Ports) == 0
	}, func(ctx context.Context, a *agent, i *instance, with int) error {
		return a.add(ctx, i, []string{"gpu", "vgpu", "two"}[with%3])
	}},
	"get Nova's vGPU": {func(w *world, i *instance) bool {
		return running(w, i) && i.profile == "" && len(i.Ports) == 0 && restorable(i)
	}, func(_ context.Context, a *agent, i *instance, _ int) error { return a.novaVGPU(i) }},
	"take over": {func(w *world, i *instance) bool { return running(w, i) && i.nova != "" }, func(ctx context.Context, a *agent, i *instance, _ int) error {
		return a.takeOver(ctx, i)
	}},
	"release devices": {func(w *world, i *instance) bool { return running(w, i) && i.added != "" }, func(ctx context.Context, a *agent, i *instance, _ int) error {
		return a.releaseDevices(ctx, i)
	}},
}

// novaMdev is the mediated device that Nova makes for an instance.
func novaMdev(instance string) string { return "d" + instance[1:] }

// isNovas reports whether a device is one of these.
func isNovas(device string) bool { return strings.HasPrefix(device, "mdev d000000") }

// novaVGPU lets an instance have a vGPU of Nova's, as nova-compute spawns it. No fault is in the way.
func (a *agent) novaVGPU(i *instance) error {
	n := slices.IndexFunc(a.cloud.Placement.ResourceProviders(), func(p placementsim.ResourceProvider) bool { return p.Name == i.Host+"_pci_0000_e1_00_0" })
	held := slices.DeleteFunc(a.cloud.Placement.Allocations(), func(of placementsim.Allocation) bool { return of.Consumer != i.UUID })
	claim := placementsim.Claim{Consumer: i.UUID, Project: i.project, User: i.project, Allocations: append(slices.Clone(held), placementsim.Allocation{
		Consumer: i.UUID, Provider: a.cloud.Placement.ResourceProviders()[n].UUID, Class: "VGPU", Used: 1,
	})}
	if err := a.cloud.Placement.Release(i.UUID); err != nil {
		return err
	}
	if a.cloud.Placement.Claim(claim) != nil { // there is no room
		claim.Allocations = held
		return a.cloud.Placement.Claim(claim)
	}
	domain, err := domainxml.Merge(anotherDomain(i), []domainxml.Hostdev{{MDEV: novaMdev(i.UUID)}})
	if err != nil {
		return err
	}
	i.nova = novaMdev(i.UUID)
	a.guests.mu.Lock()
	defer a.guests.mu.Unlock()
	*a.guests.guests[place{i.UUID, i.Host}] = guest{string(domain), string(domain)}
	return a.guests.tell(i.UUID)
}

// takeOver replaces Nova's vGPU of an instance by Cyborg's. One that was interrupted before is undone.
func (a *agent) takeOver(ctx context.Context, i *instance) error {
	result, err := a.ops.TakeOver(ctx, spawn.OwnershipChange{Instance: i.Instance, Flavor: flavor("vgpu"), Mdev: i.nova})
	if result == nil {
		return err
	}
	a.remember(result, nil)
	i.profile, i.Flavor, i.ARQs, i.want = "vgpu", flavor("vgpu"), arqsOf(result), a.wants("vgpu")
	if err == nil {
		i.nova = ""
	}
	return err
}

// undoTakeOver ends a TakeOver that failed: while the domain has Nova's device the instance keeps that.
func (a *agent) undoTakeOver(ctx context.Context, i *instance) error {
	if g, _ := a.guests.at(place{i.UUID, i.Host}); strings.Contains(g.saved, i.nova) {
		return a.flow.ReleaseDevices(ctx, i.UUID)
	}
	return a.takeOver(ctx, i)
}

// releaseDevices takes from an instance what it got while it ran.
func (a *agent) releaseDevices(ctx context.Context, i *instance) error {
	if err := (libvirt{a.guests, a.line}).restart(ctx, i.Instance, anotherDomain(i)); err != nil {
		return err
	}
	err := a.flow.ReleaseDevices(ctx, i.UUID)
	if err == nil {
		i.added, i.ARQs, i.want = "", nil, map[group]int{}
	}
	return err
}

func anotherDomain(i *instance) []byte {
	return domainxml.NewDomain(domainxml.DomainOpts{Name: "instance-" + i.UUID, UUID: i.UUID})
}

func (w *world) downHosts() []string { return w.guests.downHosts() }

// upHosts leaves out the candidates of hosts that are down, as Nova's scheduler does.
func (w *world) upHosts(candidates []spawn.Candidate) []spawn.Candidate {
	down := map[string]bool{}
	for _, host := range w.downHosts() {
		down[w.cloud.ProviderUUID(host)] = true
	}
	return slices.DeleteFunc(candidates, func(c spawn.Candidate) bool { return down[c.Root] })
}

// moved records where an instance is after a move. With a result it has moved, even if there is an error.
func (a *agent) moved(i *instance, result *spawn.Result, err error) error {
	a.remember(result, nil)
	if result == nil {
		return err
	}
	i.Host, i.ARQs, i.runs, i.want, i.image = result.Host, arqsOf(result), true, a.wantsOf(i), imageOf[i.profile]
	if errors.Is(err, spawn.ErrLeftover) {
		a.remember(nil, err)
		return nil
	}
	return err
}

func arqsOf(result *spawn.Result) (uuids []string) {
	for _, a := range result.ARQs {
		uuids = append(uuids, a.UUID)
	}
	return uuids
}

// remove deletes an instance. One on a host that is down is deleted without its guest, which the host removes when it is back.
func remove(ctx context.Context, a *agent, i *instance) error {
	del := a.ops.Delete
	if i.Host == "" || a.guests.isDown(i.Host) {
		del = a.ops.LocalDelete
	}
	if err := a.freed(ctx, del(ctx, i.Instance)); err != nil {
		return err
	}
	a.mu.Lock()
	delete(a.instances, i.UUID)
	a.mu.Unlock()
	a.guests.abandon(i.UUID)
	return nil
}

// freed takes an error that only names ARQs of hosts that are down, and definitions there, for none: they go when the hosts are back.
func (w *world) freed(ctx context.Context, err error) error {
	left := leftoversOf(err)
	if len(w.downHosts()) == 0 || len(left) == 0 || !errors.Is(err, spawn.ErrLeftover) {
		return err
	}
	v, failed := w.look(context.WithoutCancel(ctx))
	if failed != nil {
		return errors.Join(err, failed)
	}
	for _, l := range left {
		isDown := func(a arq) bool {
			return w.guests.isDown(a.Host) && l.Kind == spawn.LeftoverARQ && a.UUID == l.ID
		}
		if !slices.ContainsFunc(v.arqs, isDown) {
			return err
		}
	}
	w.remember(nil, err)
	return nil
}

// abandon is the end of an instance whose guest is on a host that is down.
func (h *hypervisor) abandon(instance string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.guests {
		if p.instance == instance && !h.down[p.host] {
			return
		}
	}
	h.cloud.RemoveGuest(instance)
}

// add gives devices to an instance that runs without.
func (a *agent) add(ctx context.Context, i *instance, profile string) error {
	libvirt := libvirt{a.guests, a.line}
	domain, _, err := libvirt.Domain(ctx, i.Instance)
	if err != nil {
		return err
	}
	result, err := a.flow.AddDevices(ctx, spawn.Request{Instance: i.UUID, Flavor: flavor(profile), Domain: domain})
	if err != nil {
		return err
	}
	a.remember(result, nil)
	i.added, i.ARQs, i.want = profile, arqsOf(result), a.wants(profile)
	return a.ops.HardReboot(ctx, i.Instance, result.Domain)
}

// restart starts a guest with another domain.
func (l libvirt) restart(ctx context.Context, i spawn.Instance, domain []byte) error {
	return errors.Join(l.Destroy(ctx, i), l.Define(ctx, i, domain), l.Start(ctx, i))
}

// spawn makes an instance in one of several ways.
func (a *agent) spawn(ctx context.Context, i *instance, with int) error {
	req := spawn.Request{Instance: i.UUID, Flavor: flavor(i.profile), Order: a.upHosts}
	i.project = a.cloud.ProjectID(a.tokens.user)
	if a.tokens.user == "admin" && with%4 == 1 { // an administrator's token may make it for another project
		i.project = a.cloud.ProjectID("demo")
		req.ProjectID = i.project
	}
	if with%5 == 4 {
		req.Ports = []spawn.Port{{
			Port: requestspec.Port{UUID: fmt.Sprintf("bbbbbbbb-0000-4000-8000-%012x", len(a.order)), VNICType: requestspec.VNICAcceleratorDirect, DeviceProfile: "nic"},
			MAC:  fmt.Sprintf("52:54:00:00:00:%02x", len(a.order)), BindingProfile: map[string]any{"trusted": true},
		}}
	}
	var result *spawn.Result
	var err error
	switch with % 3 {
	case 0:
		result, err = a.flow.Run(ctx, req)
	case 1:
		result, err = a.handOver(ctx, req)
	default: // the agent starts the guest when the flow has ended
		if result, err = a.bare.Run(ctx, req); err == nil {
			if err = a.startGuest(ctx, spawn.InstanceOf(req, result), result); err != nil {
				i.Instance = spawn.InstanceOf(req, result)
				i.doing, i.again = "start of a spawn", func(ctx context.Context, a *agent) error {
					if err := remove(ctx, a, i); err != nil {
						return err
					}
					return nil
				}
				i.want = a.wantsOf(i)
				a.remember(result, nil)
				return err
			}
		}
	}
	if err != nil {
		a.mu.Lock()
		delete(a.instances, i.UUID)
		a.mu.Unlock()
		return err
	}
	a.remember(result, nil)
	i.Instance, i.runs, i.image = spawn.InstanceOf(req, result), true, imageOf[i.profile]
	i.want = a.wantsOf(i)
	return nil
}

// startGuest starts the guest of a flow without a hypervisor.
func (a *agent) startGuest(ctx context.Context, i spawn.Instance, result *spawn.Result) error {
	guests := a.hypervisor()
	if mdevs, ok := guests.(spawn.MdevCreator); ok {
		for _, arq := range result.ARQs {
			if arq.AttachHandleType != cyborgclient.HandleMDEV {
				continue
			}
			if err := mdevs.CreateMdev(ctx, i, arq); err != nil {
				return err
			}
		}
	}
	if err := guests.Define(ctx, i, result.Domain); err != nil {
		return err
	}
	return guests.Start(ctx, i)
}

// handOver makes an instance in two processes: one chooses and binds, the other waits and starts the guest, and tries the
// next host.
func (a *agent) handOver(ctx context.Context, req spawn.Request) (result *spawn.Result, err error) {
	var named []spawn.Leftover
	defer func() {
		if err != nil && len(named) > 0 {
			err = &spawn.Error{Instance: req.Instance, Err: err, Leftovers: named}
		}
	}()
	conductor, err := a.flow.Begin(ctx, spawn.Request{Instance: req.Instance, Flavor: req.Flavor, Ports: req.Ports, ProjectID: req.ProjectID, Order: req.Order})
	if err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{
		conductor.ReadProfile, conductor.BuildRequest, conductor.FindCandidates, conductor.Select, conductor.Claim, conductor.CreateARQs, conductor.Match, conductor.Bind,
	} {
		if err := step(ctx); err != nil {
			_, named = conductor.Unwind(ctx)
			return nil, err
		}
	}
	handover, err := conductor.Handover(ctx)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(handover)
	if err != nil {
		return nil, err
	}
	var passed spawn.Handover
	if err := json.Unmarshal(data, &passed); err != nil {
		return nil, err
	}
	compute, err := a.compute.Resume(ctx, passed, nil)
	if err != nil {
		return nil, err
	}
	rest := []struct {
		name spawn.Step
		do   func(context.Context) error
	}{
		{spawn.StepClaim, compute.Claim}, {spawn.StepCreate, compute.CreateARQs}, {spawn.StepMatch, compute.Match}, {spawn.StepBind, compute.Bind},
		{spawn.StepWait, compute.WaitBound}, {spawn.StepCompose, compute.Compose}, {spawn.StepStart, compute.StartGuest},
	}
	for n := 4; n < len(rest); n++ {
		err := rest[n].do(ctx)
		if err == nil {
			continue
		}
		if compute.Reschedulable(rest[n].name, err) && compute.Reschedule(ctx) == nil {
			n = -1 // the next host, from the claim on
			continue
		}
		_, named = compute.Unwind(ctx)
		return nil, err
	}
	return compute.Result(), nil
}

// prepare chooses what an action is about, and who does it. Without a function there is nothing that it, or what is done
// instead, may be about.
func (w *world) prepare(act *action, beside int) (a *agent, do func(context.Context) error) {
	for range instead {
		if a, do = w.choose(*act, beside); do != nil || instead[act.Do] == "" {
			break
		}
		switch act.Do { // and an instance that fits the next time
		case "add devices", "get Nova's vGPU":
			act.Pick, act.With = 11, 0
		case "program":
			act.Pick, act.With = 7, 0
		}
		act.Do = instead[act.Do]
	}
	return a, do
}

func (w *world) choose(act action, beside int) (*agent, func(context.Context) error) {
	a := w.agents[act.Agent%len(w.agents)]
	if do := w.befall(act, beside); do != nil {
		return w.agents[0], do
	}
	if act.Do == "spawn" {
		names := []string{"gpu", "vgpu", "fpga", "fake", "mixed", "two", "pair", "gzip", "crypto", "image", "changes", ""}
		i := &instance{owner: a.number, profile: names[(act.Pick+act.With)%len(names)], busy: true}
		i.UUID = fmt.Sprintf("%08x-0000-4000-8000-%012x", a.number+1, len(w.order)+1)
		w.instances[i.UUID] = i
		w.order = append(w.order, i.UUID)
		return a, func(ctx context.Context) error {
			defer func() { i.busy = false }()
			w.note("spawn %s of %s", i.UUID, i.profile)
			return a.spawn(ctx, i, act.With)
		}
	}
	op, there := operations[act.Do]
	if !there {
		return nil, nil
	}
	var fitting []*instance
	for _, i := range w.list() {
		if !i.busy && i.again == nil && op.fits(w, i) {
			fitting = append(fitting, i)
		}
	}
	if len(fitting) == 0 {
		return nil, nil
	}
	i := fitting[act.Pick%len(fitting)]
	i.busy = true
	owner := w.agents[i.owner]
	return owner, func(ctx context.Context) error {
		defer func() { i.busy = false }()
		w.note("%s %s of %s on %q", act.Do, i.UUID, i.profile, i.Host)
		err := op.do(ctx, owner, i, act.With)
		if err != nil {
			i.doing, i.again = act.Do, func(ctx context.Context, a *agent) error { return op.do(ctx, a, i, act.With) }
			if act.Do == "add devices" { // an interrupted one is undone
				i.again = func(ctx context.Context, a *agent) error { return a.releaseDevices(ctx, i) }
			}
			if act.Do == "take over" {
				i.again = func(ctx context.Context, a *agent) error { return a.undoTakeOver(ctx, i) }
			}
		}
		return err
	}
}

// befall is an action that is not about an instance.
func (w *world) befall(act action, beside int) func(context.Context) error {
	hosts := w.cloud.HostNames()
	host := hosts[act.Pick%len(hosts)]
	switch act.Do {
	case "reconcile":
		return func(ctx context.Context) error {
			if beside == 1 {
				return w.reconcile(ctx, w.agents[0])
			}
			_, err := w.reconcileHosts(ctx, w.agents[0])
			return err
		}
	case "host down":
		if all := w.list(); len(all) > 0 && isUp(w, all[act.Pick%len(all)]) {
			host = all[act.Pick%len(all)].Host // one that matters
		}
		if len(w.downHosts())+1 >= len(hosts) || w.guests.isDown(host) {
			return nil
		}
		return func(context.Context) error {
			w.powerOff(host)
			return w.cloud.StopHost(host)
		}
	case "host up", "host reboot":
		if beside > 1 {
			return nil
		}
		if act.Do == "host reboot" && !w.guests.isDown(host) {
			return func(ctx context.Context) error {
				w.powerOff(host)
				return errors.Join(w.cloud.StopHost(host), w.hostUp(ctx, host))
			}
		}
		down := w.downHosts()
		if len(down) == 0 {
			return nil
		}
		return func(ctx context.Context) error { return w.hostUp(ctx, down[act.Pick%len(down)]) }
	case "device vanishes":
		return func(ctx context.Context) error {
			addresses := []string{"0000:3b:00.0", "0000:5e:00.0", "0000:af:00.0", "0000:86:00.0", "0000:d8:00.0"}
			gone := fault.Rule{Operation: fault.DeviceFind, Subject: host + "_" + addresses[act.With%len(addresses)], Action: fault.Drop, Times: -1}
			w.mu.Lock()
			defer w.mu.Unlock()
			if !slices.Contains(w.missing, gone) {
				w.missing = append(w.missing, gone)
			}
			return nil
		}
	case "devices return":
		return func(context.Context) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.missing = nil
			return nil
		}
	case "profile changes":
		if beside > 1 {
			return nil
		}
		return func(ctx context.Context) error {
			groups := changes[act.With%len(changes)]
			status, err := w.send(ctx, http.MethodDelete, "/accelerator/v2/device_profiles?value=changes", "")
			if err != nil || status != http.StatusNoContent {
				return nil // it is in use
			}
			body, err := json.Marshal([]map[string]any{{"name": "changes", "groups": groups}})
			if err != nil {
				return err
			}
			for range 9 { // faults strike this request, too
				if status, err = w.send(ctx, http.MethodPost, "/accelerator/v2/device_profiles", string(body)); err == nil && status == http.StatusCreated {
					w.profiles["changes"] = groups
					return nil
				}
			}
			return fmt.Errorf("profile: %d, %w", status, err)
		}
	case "hours pass":
		return func(context.Context) error { time.Sleep(time.Duration(act.With) * 10 * time.Minute); return nil }
	}
	return nil
}

// powerOff is the end of all that runs on a host, and of what its cards have.
func (w *world) powerOff(host string) {
	w.guests.powerOff(host)
	for _, i := range w.list() {
		if i.Host == host {
			i.image = ""
		}
	}
}

// hostUp is a host that comes up again: nova-compute removes the guests that are elsewhere now, with the
// definitions of their mediated devices; then the guests of the host start.
func (w *world) hostUp(ctx context.Context, host string) error {
	if err := w.cloud.StartHost(ctx, host); err != nil && len(w.missing) == 0 { // the report names a missing device that is in use
		return err
	}
	w.guests.mu.Lock()
	delete(w.guests.down, host)
	var moved []string // devices of guests that are elsewhere now
	for p, g := range w.guests.guests {
		if i := w.instances[p.instance]; p.host == host && (i == nil || i.Host != host) {
			devices, err := devicesOf(g.saved)
			if err != nil {
				return err
			}
			moved = append(moved, devices...)
			delete(w.guests.guests, p)
		}
	}
	w.guests.mu.Unlock()
	for _, device := range moved {
		if mdev, is := strings.CutPrefix(device, "mdev "); is && w.cloud.Model().Cyborg.MdevCreation == fakecyborg.MdevsByNova {
			if err := w.cloud.RemoveMdev(ctx, host, mdev); err != nil {
				return err
			}
		}
	}
	for _, i := range w.list() {
		w.guests.mu.Lock()
		err := w.guests.tell(i.UUID)
		w.guests.mu.Unlock()
		if err != nil {
			return err
		}
	}
	w.crashed = true // what Cyborg could not delete while the host was down is still there
	for _, i := range w.list() {
		if i.Host != host || i.busy || i.again != nil || !i.runs {
			continue
		}
		i.doing, i.again = "resume after a reboot", func(ctx context.Context, a *agent) error {
			if i.rescued == nil {
				return a.ops.ResumeAfterHostReboot(ctx, i.Instance)
			}
			err := a.ops.Unrescue(ctx, i.Instance, i.rescued) // a guest in rescue is not resumed
			if err == nil {
				i.rescued = nil
			}
			return err
		}
	}
	return nil
}
