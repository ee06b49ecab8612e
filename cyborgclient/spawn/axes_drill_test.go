package spawn_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/drill"
)

// life is what a combination drills: an instance of a cloud, from its spawn to an operation on it.
type life struct {
	cyborg    fakecyborg.Config
	tokens    credentials
	asked     asked
	domain    string                   // of the names of the compute nodes
	host      func(node string) string // the name of Nova's host on a node
	spawn     func(ctx context.Context, s *stage, w *world, req spawn.Request) (*spawn.Result, error)
	agents    func(s *stage, flow drill.Flow) drill.Flow
	rules     []fault.Rule // of the cloud while the flow runs
	operation string
}

func newLife(c combination) *life {
	l := &life{}
	for _, v := range c {
		v.set(l)
	}
	return l
}

// shortName is the host name of a fully qualified domain name.
func shortName(node string) string {
	short, _, _ := strings.Cut(node, ".")
	return short
}

// model is the cloud: all that can be asked for on two hosts, or on three flat ones only what is.
func (l *life) model() simcloud.Model {
	model := *programModel()
	model.Cyborg = l.cyborg
	if l.operation == "program" {
		l.permitProgram(&model.Cyborg)
	}
	if l.isFlat() {
		model.Hosts = append(model.Hosts, simcloud.DefaultModel().Hosts[1])
		model.Hosts[2].Name, model.Hosts[2].Providers[0].Name = "cn2", "cn2_nic"
	}
	for i := range model.Hosts {
		model.Hosts[i].Name += l.domain
	}
	addPorts(&model)
	for i := range model.Hosts {
		if l.isFlat() {
			l.asked.flat(&model.Hosts[i])
		}
	}
	model.DeviceProfiles = append(model.DeviceProfiles, regionProfile("crypto-by-id", "accel:function_id", cryptoID),
		regionProfile("aes-by-bitstream", "accel:bitstream_id", imageAES), regionProfile("aes-by-name", "accel:function_name", "aes"),
		regionProfile("gzip-by-bitstream", "accel:bitstream_name", "gzip-v1"))
	model.Images[0].Properties["accel:bitstream_name"] = "gzip-v1"
	return model
}

// permitProgram lets the owner of an instance program its region.
func (l *life) permitProgram(c *fakecyborg.Config) {
	c.RuntimeProgramming = true
	if c.Release == "9.0.0" || c.Release == "16.0.0" { // whose ARQs have no project: they check nothing
		c.UpstreamQuirks = true
	}
}

// content is the image that the region of the instance has after an operation, or "" where that is not known: a region loses
// its function with the power of its host, and Cyborg with its defects does not record what was programmed.
func (l *life) content(operation string) string {
	switch {
	case operation == "resume after host reboot", l.model().Cyborg.UpstreamQuirks:
		return ""
	case operation == "program":
		return imageGzip
	}
	return l.asked.image
}

// profile is the device profile of the flavor, or "". A flat host with network cards has no GPUs.
func (l *life) profile() string {
	if l.isFlat() && l.asked.port != "" {
		return ""
	}
	return l.asked.profile
}

func (l *life) isFlat() bool { return l.cyborg.PlacementMode == fakecyborg.ModeFlat }

// stage is where it takes place.
func (l *life) stage() *stage {
	s := newStage()
	s.tokens, s.host = l.tokens, l.host
	if s.neighbor = "gpu"; l.isFlat() {
		s.neighbor, s.config.Compat.FlatProviders = cmp.Or(l.profile(), l.asked.port), true
	}
	if l.rivals() {
		s.prefers = firstHost
	}
	return s
}

// rivals reports whether two agents prefer the same host, whose last device both may claim.
func (l *life) rivals() bool { return len(l.rules) > 0 && l.operation == "spawn" }

// request asks for the instance.
func (l *life) request(guests *hypervisor) spawn.Request {
	req := spawn.Request{Instance: instance, Flavor: plainFlavor()}
	if profile := l.profile(); profile != "" {
		req.Flavor = flavor(profile)
	}
	if l.asked.port != "" {
		req.Ports = []spawn.Port{acceleratedPort(port1, l.asked.port, mac1)}
	}
	if l.rivals() {
		req.Order = preferring(guests.cloud, firstHost(guests.cloud.HostNames()))
	}
	if l.tokens.project != "" {
		req.ProjectID = guests.cloud.ProjectID(l.tokens.project)
	}
	return req
}

// instance is the instance of a result, as Nova has it.
func (l *life) instance(req spawn.Request, result *spawn.Result) spawn.Instance {
	i := spawn.InstanceOf(req, result)
	i.Host = l.host(i.Host)
	return i
}

// launch spawns the instance, which then runs with all that it asked for.
func (l *life) launch(ctx context.Context, s *stage, at *site) (spawn.Instance, error) {
	req := l.request(at.guests)
	result, err := l.spawn(ctx, s, at.world, req)
	if err != nil {
		return spawn.Instance{}, err
	}
	if left := slices.Concat(result.Suspects, result.Leftovers); len(left) > 0 {
		s.failed(at.cloud, &spawn.Error{Instance: instance, Leftovers: left})
	}
	i := l.instance(req, result)
	return i, errors.Join(running(at, i), l.owned(at), l.loaded(at, l.content("spawn")))
}

// bound lists the ARQs of the instance.
func bound(at *site) []fakecyborg.ARQ {
	return slices.DeleteFunc(at.cloud.Cyborg.ARQs(), func(a fakecyborg.ARQ) bool { return a.InstanceUUID != instance || a.State != fakecyborg.StateBound })
}

// owned checks that the ARQs are of the project of the instance. Before 14.1 they have one only if it was named.
func (l *life) owned(at *site) error {
	want := at.cloud.ProjectID(cmp.Or(l.tokens.project, l.tokens.request, l.tokens.cyborg))
	for _, arq := range bound(at) {
		if arq.ProjectID != want && (arq.ProjectID != "" || l.tokens.project != "") {
			return fmt.Errorf("ARQ %s is of project %q, want %s", arq.UUID, arq.ProjectID, want)
		}
	}
	return nil
}

// showsFunction reports that Cyborg has found a region anew, whose card was away, with the function of an image. Its driver reads
// the function, and not the image.
func (l *life) showsFunction(region fakecyborg.StoredDeployable, image string) bool {
	if region.BitstreamID != "" {
		return false
	}
	return slices.ContainsFunc(l.model().Images, func(i simcloud.Image) bool {
		id := strings.ToUpper(strings.ReplaceAll(i.Properties["accel:function_id"], "-", ""))
		return i.ID == image && slices.ContainsFunc(region.Attributes, func(a driver.Attribute) bool {
			return a.Value == "CUSTOM_FPGA_FUNCTION_ID_INTEL_"+id
		})
	})
}

// loaded checks that the regions of the instance have an image, unless a fault has rebooted their host.
func (l *life) loaded(at *site, image string) error {
	rebooted := slices.ContainsFunc(at.cloud.Faults().Rules(), func(s fault.State) bool { return s.Rule.Action == fault.Reboot })
	if image == "" || rebooted {
		return nil
	}
	for _, arq := range bound(at) {
		for _, region := range at.cloud.Cyborg.Deployables() {
			if region.ProviderUUID == arq.DeviceRPUUID && region.BitstreamID != image && !l.showsFunction(region, image) {
				return fmt.Errorf("region %s has image %q, want %s", region.Name, region.BitstreamID, image)
			}
		}
	}
	return nil
}

// inOneProcess runs the whole flow.
func inOneProcess(ctx context.Context, _ *stage, w *world, req spawn.Request) (*spawn.Result, error) {
	return w.flow.Run(ctx, req)
}

// handedOver lets a second process, with an agent of its own, go on after the bind.
func handedOver(ctx context.Context, s *stage, conductor *world, req spawn.Request) (*spawn.Result, error) {
	return handOver(ctx, conductor.flow, func(ctx context.Context) (*spawn.Flow, error) {
		compute, err := s.agentOn(ctx, conductor.cloud)
		if err != nil {
			return nil, err
		}
		var guests *hypervisor
		s.on(conductor.cloud, func(set *set) { guests = set.guests })
		return compute.flow.On(guests.spawns()), nil
	}, req)
}

// handOver lets the flow of a second process go on after the bind, and on other hosts. The first unwinds what it cannot hand over.
func handOver(ctx context.Context, conductor *spawn.Flow, compute func(context.Context) (*spawn.Flow, error), req spawn.Request) (*spawn.Result, error) {
	a, err := conductor.Begin(ctx, req)
	if err != nil {
		return nil, err
	}
	b, err := handed(ctx, a, compute)
	if err != nil {
		return nil, unwound(ctx, a, err)
	}
	b.Request.Hooks = req.Hooks
	rest := []computeStep{{spawn.StepWait, b.WaitBound}, {spawn.StepCompose, b.Compose}, {spawn.StepStart, b.StartGuest}}
	name, err := steps(ctx, rest)
	for err != nil && b.Reschedulable(name, err) && ctx.Err() == nil {
		if moved := b.Reschedule(ctx); moved != nil {
			err = errors.Join(err, moved)
			break
		}
		name, err = steps(ctx, append([]computeStep{
			{spawn.StepClaim, b.Claim}, {spawn.StepCreate, b.CreateARQs}, {spawn.StepMatch, b.Match}, {spawn.StepBind, b.Bind},
		}, rest...))
	}
	if err != nil {
		return nil, unwound(ctx, b, err)
	}
	return b.Result(), nil
}

// handed is the attempt of the second process, which has read what the first one has written.
func handed(ctx context.Context, a *spawn.Attempt, compute func(context.Context) (*spawn.Flow, error)) (*spawn.Attempt, error) {
	if err := walk(ctx, a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind); err != nil {
		return nil, err
	}
	handover, err := a.Handover(ctx)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(handover)
	if err != nil {
		return nil, err
	}
	flow, err := compute(ctx)
	if err != nil {
		return nil, err
	}
	read, err := parseHandover(data)
	if err != nil {
		return nil, err
	}
	return flow.Resume(ctx, read, nil)
}

type computeStep struct {
	name spawn.Step
	do   func(context.Context) error
}

func steps(ctx context.Context, list []computeStep) (spawn.Step, error) {
	for _, s := range list {
		if err := s.do(ctx); err != nil {
			return s.name, err
		}
	}
	return 0, nil
}

// unwound is the error of an attempt that was given up.
func unwound(ctx context.Context, a *spawn.Attempt, err error) error {
	undone, left := a.Unwind(ctx)
	return &spawn.Error{Instance: a.Request.Instance, Err: err, Undone: undone, Leftovers: left}
}

// program loads a function into the region of an instance, which takes one request.
func program(ctx context.Context, s *site, i *spawn.Instance) error {
	before := programs(s.cloud)
	_, err := s.flow.Program(ctx, spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], FunctionName: "gzip"})
	if sent := programs(s.cloud) - before; sent > 1 {
		panic(fmt.Sprintf("the region was programmed %d times", sent))
	}
	return err
}

// programs counts the requests to program, without late ones and those whose token was refused.
func programs(cloud *simcloud.Cloud) (n int) {
	for _, r := range cloud.Requests() {
		if r.Operation == fault.DeployableProgram && !strings.HasPrefix(r.Fault, string(fault.Late)) && r.Status != http.StatusUnauthorized {
			n++
		}
	}
	return n
}

// exercise is the operation of a life.
func (l *life) exercise(stage *stage) drilledExercise {
	all := append(drilledExercises(), drilledExercise{exercise: exercise{name: "program", done: running, run: program}})
	e := all[slices.IndexFunc(all, func(e drilledExercise) bool { return e.name == l.operation })]
	if l.operation == "resume after host reboot" && l.cyborg.UpstreamQuirks {
		e.odd = true // the mediated device does not exist until a try succeeds
	}
	done := e.done
	e.launch = func(ctx context.Context, at *site) (spawn.Instance, error) { return l.launch(ctx, stage, at) }
	e.done = func(at *site, i spawn.Instance) error {
		return errors.Join(done(at, i), l.owned(at), l.loaded(at, l.content(l.operation)))
	}
	return e
}

// drill is the drill of a life.
func (l *life) drill(stage *stage, config drill.Config) (drill.Flow, drill.Config) {
	flow, config := l.whole(stage, config)
	return func(ctx context.Context, cloud *simcloud.Cloud) error {
		if err := cloud.Faults().Add(l.rules...); err != nil {
			return err
		}
		return flow(ctx, cloud)
	}, config
}

// whole is the drill of a life on a cloud without rules.
func (l *life) whole(stage *stage, config drill.Config) (drill.Flow, drill.Config) {
	config.Model, config.Bystander, config.Timeout = l.model(), bystander, 6*time.Hour
	if l.operation == "spawn" {
		config.Setup = func(_ context.Context, cloud *simcloud.Cloud) error {
			stage.hypervisorOn(cloud)
			return nil
		}
		return l.agents(stage, func(ctx context.Context, cloud *simcloud.Cloud) error {
			var guests *hypervisor
			stage.on(cloud, func(set *set) { guests = set.guests })
			at, err := stage.siteOn(ctx, cloud, guests)
			if err == nil {
				_, err = l.launch(ctx, stage, at)
			}
			return err
		}), stage.drilled(config, false)
	}
	e := l.exercise(stage)
	config.Setup = e.setup(stage)
	return l.agents(stage, e.flow(stage)), stage.drilled(config, false)
}

// axesSeed makes the combinations, and chooses the faults of each.
var axesSeed = flag.Uint64("axes.seed", 1, "makes the combinations of TestDrillAxes and chooses their faults")

// axesVariable is the environment variable with the name of a file to which TestDrillAxes writes its table.
const axesVariable = "GOCYBORG_AXES"

// TestDrillAxes drills combinations of the values of the axes: with the tag drill so many that each pair of values of two
// axes that is not excluded is in one, otherwise so many that each value is in one. In the end each value has had runs, and faults.
func TestDrillAxes(t *testing.T) {
	all, err := combinations(*axesSeed)
	settled(t, err)
	if step > 1 {
		all = eachValue(all)
	}
	var counts tally
	t.Run("combinations", func(t *testing.T) {
		for _, c := range all {
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				l := newLife(c)
				stage := l.stage()
				flow, config := l.drill(stage, drill.Config{Seed: *axesSeed, Singles: axesSingles, Pairs: axesPairs})
				counts.add(c, drill.Run(t, flow, config), stage.patches.count())
			})
		}
	})
	if counts.combinations < len(all) || os.Getenv(drill.FaultsVariable) != "" {
		return // -run has chosen some, or the faults are given
	}
	for _, value := range counts.empty() {
		t.Errorf("%s: no run or no fault", value)
	}
	if testing.Verbose() {
		t.Log("\n" + counts.table())
	}
	if name := os.Getenv(axesVariable); name != "" {
		settled(t, os.WriteFile(name, []byte(counts.table()), 0o644))
	}
}

// tally counts the runs and the faults that had an effect, by value.
type tally struct {
	mu           sync.Mutex
	combinations int
	all          drill.Summary
	overlaps     int // PATCHes of an ARQ that were sent while another one was under way
	of           map[string]drill.Summary
	in           map[string]int // combinations
}

func (y *tally) add(c combination, sum drill.Summary, overlaps int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.of == nil {
		y.of, y.in = map[string]drill.Summary{}, map[string]int{}
	}
	y.combinations++
	y.overlaps += overlaps
	y.all = drill.Summary{Runs: y.all.Runs + sum.Runs, Fired: y.all.Fired + sum.Fired}
	for _, v := range c {
		y.of[v.name] = drill.Summary{Runs: y.of[v.name].Runs + sum.Runs, Fired: y.of[v.name].Fired + sum.Fired}
		y.in[v.name]++
	}
}

// empty lists the values without a run or a fault.
func (y *tally) empty() (list []string) {
	for _, a := range axes() {
		for _, v := range a.values {
			if sum := y.of[v.name]; sum.Runs == 0 || sum.Fired == 0 {
				list = append(list, a.name+": "+v.name)
			}
		}
	}
	return list
}

const axesHeader = "| axis | value | combinations | runs | faults |\n|---|---|---|---|---|\n"

// table is the table of docs/dev/testing.md.
func (y *tally) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d combinations, %d runs, %d faults. %d binds or unbinds of an ARQ were sent while another one of it was under way:\n\n%s",
		y.combinations, y.all.Runs, y.all.Fired, y.overlaps, axesHeader)
	for _, a := range axes() {
		for _, v := range a.values {
			fmt.Fprintf(&b, "| %s | %s | %d | %d | %d |\n", a.name, v.name, y.in[v.name], y.of[v.name].Runs, y.of[v.name].Fired)
		}
	}
	return b.String()
}
