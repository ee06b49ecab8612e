package simcloud_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

func manual() *sim.ManualClock {
	return sim.NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
}

// closing ends a cloud with the test.
func closing(t *testing.T) func(*simcloud.Cloud, error) *simcloud.Cloud {
	return func(c *simcloud.Cloud, err error) *simcloud.Cloud {
		t.Helper()
		must(t, err)
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		return c
	}
}

func dump(t *testing.T, c *simcloud.Cloud) []byte {
	t.Helper()
	data, err := c.Dump()
	must(t, err)
	return data
}

// sameState shows only where two states differ.
func sameState(t *testing.T, what string, want, got []byte) {
	t.Helper()
	if string(want) == string(got) {
		return
	}
	found, err := simcloud.State(want).Diff(got)
	must(t, err)
	t.Errorf("%s: the states differ in %d places (the bytes do):", what, len(found))
	for i, d := range found {
		if t.Log(d); i == 20 {
			break
		}
	}
}

// everything is a cloud with a guest on each driver's device.
func everything(t *testing.T) (*simcloud.Cloud, []given) {
	t.Helper()
	list := givenDrivers()
	cloud := closing(t)(simcloud.New(t.Context(), oneHost(list...), simcloud.WithClock(manual())))
	s := spawnerOn(t, cloud)
	for n, g := range list {
		s.spawn(t, n, g)
	}
	return cloud, list
}

func TestACloudOfADumpIsTheSameCloud(t *testing.T) {
	t.Parallel()
	cloud, list := everything(t)
	must(t, cloud.Faults().Set(fault.Rule{Operation: fault.PlacementRootGet, Nth: 2, Action: fault.Status, Status: 503}))
	before := dump(t, cloud)
	again := closing(t)(simcloud.FromState(t.Context(), before))
	sameState(t, "a cloud that was loaded", before, dump(t, again))
	if diff := cmp.Diff(cloud.Cyborg.ARQs(), again.Cyborg.ARQs()); diff != "" {
		t.Errorf("accelerator requests (-original +loaded):\n%s", diff)
	}
	if diff := cmp.Diff(cloud.Leaks(), again.Leaks()); diff != "" {
		t.Errorf("leaks (-original +loaded):\n%s", diff)
	}
	must(t, cloud.Load(before)) // both log in anew from here on
	sameState(t, "a cloud that loaded its own state", before, dump(t, cloud))
	for _, c := range []*simcloud.Cloud{cloud, again} {
		s := spawnerOn(t, c)
		for n := range list {
			s.release(t, n)
		}
		s.spawn(t, 100, list[0])
		if err := c.Cyborg.Report(t.Context()); err != nil {
			t.Error(err)
		}
	}
	sameState(t, "after the same steps in both", dump(t, cloud), dump(t, again))
	cloud.CheckNoLeaks(t)
	again.CheckNoLeaks(t)
}

func TestATestCanRestoreAState(t *testing.T) {
	t.Parallel()
	list := givenDrivers()
	cloud := closing(t)(simcloud.New(t.Context(), oneHost(list...), simcloud.WithClock(manual())))
	begin := dump(t, cloud)
	s := spawnerOn(t, cloud)
	for n, g := range list {
		s.spawn(t, n, g)
	}
	must(t, cloud.Load(begin))
	sameState(t, "back at the begin", begin, dump(t, cloud))
	spawnerOn(t, cloud).spawn(t, 1, list[0])
	cloud.CheckNoLeaks(t)
}

func TestAStoppedHostStaysStoppedInAState(t *testing.T) {
	t.Parallel()
	m := oneHost(givenBy(t, "nvidia-vgpu"))
	m.Cyborg.BindingStates = true
	cloud := closing(t)(simcloud.New(t.Context(), m, simcloud.WithClock(manual())))
	spawnerOn(t, cloud).spawn(t, 1, givenBy(t, "nvidia-vgpu"))
	must(t, cloud.StopHost("cn0"))
	clock := manual()
	clock.Advance(time.Hour)
	again := closing(t)(simcloud.FromState(t.Context(), dump(t, cloud)))
	if arqs := again.Cyborg.ARQs(); len(arqs) != 1 || len(uuids(t, again)) != 0 {
		t.Fatalf("requests %v, mediated devices %v: want one and none", arqs, uuids(t, again))
	}
	must(t, again.StartHost(t.Context(), "cn0"))
	if arq := again.Cyborg.ARQs()[0]; arq.State != fakecyborg.StateBound || len(uuids(t, again)) != 1 {
		t.Errorf("after the start: %s with %v", arq.State, uuids(t, again))
	}
	again.CheckNoLeaks(t)
}

func TestModelsSurviveTheirDump(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]simcloud.Model{
		"default": {}, "flat": {Cyborg: fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat}}, "every driver": oneHost(givenDrivers()...),
		"empty": {Hosts: []simcloud.Host{{Name: "bare", Traits: []string{}}}, Users: []simcloud.User{}, DeviceProfiles: []simcloud.DeviceProfile{}, Flavors: []simcloud.Flavor{}},
		"scale": simcloud.ScaleModel(2, 2), "seeds": {Seed: 3, Cyborg: fakecyborg.Config{Seed: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cloud := closing(t)(simcloud.New(t.Context(), m, simcloud.WithClock(manual())))
			again := closing(t)(simcloud.FromState(t.Context(), dump(t, cloud)))
			if diff := cmp.Diff(cloud.Model(), again.Model()); diff != "" {
				t.Errorf("model (-original +loaded):\n%s", diff)
			}
			sameState(t, "loaded", dump(t, cloud), dump(t, again))
		})
	}
}

func TestABadStateIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	cloud, _ := everything(t)
	good := dump(t, cloud)
	lines := strings.SplitAfter(string(good), "\n")
	without := func(table string) []byte {
		return []byte(strings.Join(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.HasPrefix(l, `{"table":"`+table) }), ""))
	}
	bad := map[string][]byte{
		"empty":             nil,
		"no JSON":           []byte("nothing"),
		"something behind":  append(bytes.Clone(good), '1'),
		"half a line":       good[:len(good)-9],
		"a line twice":      append(bytes.Clone(good), lines[len(lines)-2]...),
		"schema of old":     bytes.Replace(good, []byte(`"schema_version":2`), []byte(`"schema_version":1`), 1),
		"schema to come":    bytes.Replace(good, []byte(`"schema_version":2`), []byte(`"schema_version":3`), 1),
		"unknown member":    bytes.Replace(good, []byte(`{"schema_version"`), []byte(`{"colour":"red","schema_version"`), 1),
		"unknown table":     append(bytes.Clone(good), `{"table":"weather","key":"k","row":{}}`...),
		"no time":           bytes.Replace(good, []byte(`{"now":"`), []byte(`{"now":"soon`), 1),
		"no hardware":       without("hardware.hosts"),
		"one host too many": append(bytes.Clone(good), `{"table":"hardware.hosts","key":"cn9","row":{"host":"cn9"}}`...),
		"another model":     bytes.Replace(good, []byte(`"model":{`), []byte(`"model":{"seed":9,`), 1),
		"no model":          bytes.Replace(good, []byte(`"model":{`), []byte(`"model":7,"more":{`), 1),
	}
	now := changed(t, cloud, good)
	seen := make(map[string]bool)
	for i, line := range lines[1 : len(lines)-1] {
		table := strings.Split(line, `"`)[3]
		if !seen[table] {
			seen[table] = true
			spoiled := slices.Clone(lines)
			spoiled[i+1] = strings.Replace(line, `"row":{`, `"row":{"colour":"red",`, 1)
			bad["unknown member in "+table] = []byte(strings.Join(spoiled, ""))
		}
	}
	if len(seen) < 8 {
		t.Errorf("tables %v, want at least one for each component", seen)
	}
	for name, bad := range bad {
		if bytes.Equal(bad, good) {
			t.Fatalf("%s: nothing is wrong with it", name)
		}
		if err := cloud.Load(bad); !errors.Is(err, simcloud.ErrState) {
			t.Errorf("%s: got %v, want ErrState", name, err)
		}
		sameState(t, name, now, dump(t, cloud))
	}
}

// changed changes something in each component of a cloud, so that a refused load shows if it
// leaves a part behind. It returns the new state.
func changed(t *testing.T, cloud *simcloud.Cloud, before []byte) []byte {
	t.Helper()
	login(t, cloud, "admin", "admin")
	if _, err := cloud.Placement.CreateProvider(placementsim.ResourceProvider{Name: "late"}); err != nil {
		t.Fatal(err)
	}
	if _, err := cloud.Cyborg.CreateDeviceProfile("late", []map[string]string{{"resources:PGPU": "1"}}); err != nil {
		t.Fatal(err)
	}
	must(t, cloud.DefineGuest(sim.Guest{UUID: instance(99)}))
	if _, err := cloud.AddImage(simcloud.Image{Data: "late"}); err != nil {
		t.Fatal(err)
	}
	must(t, cloud.StopHost(cloud.HostNames()[0]))
	must(t, cloud.Faults().Set(fault.Rule{Operation: fault.ARQBind, Action: fault.Drop}))
	after := dump(t, cloud)
	found, err := simcloud.State(before).Diff(after)
	must(t, err)
	for _, component := range []string{"identity", "placement", "accelerator", "compute", "image", "hardware", "sim.faults"} {
		if !slices.ContainsFunc(found, func(d sim.Difference) bool { return strings.HasPrefix(d.Path, component) }) {
			t.Errorf("nothing has changed in %s", component)
		}
	}
	return after
}

// A client may change what the report of a host needs. The cloud starts again from its file, as
// the process of a real agent does, and logs that the host cannot report.
func TestACloudStartsAgainWhoseHostCannotReport(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state")
	var log bytes.Buffer
	open := func() (*simcloud.Cloud, error) {
		return simcloud.New(t.Context(), oneHost(givenBy(t, "nvidia-vgpu")), simcloud.WithClock(manual()), simcloud.WithStateFile(file),
			simcloud.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	}
	first, err := open()
	must(t, err)
	login(t, first, "admin", "admin").do("PUT", "/placement/resource_providers/"+first.ProviderUUID("cn0"), "",
		map[string]string{"name": "renamed"}, 200, nil)
	devices := first.Cyborg.Devices()
	must(t, first.Close())
	for range 2 {
		log.Reset()
		again := closing(t)(open())
		if diff := cmp.Diff(devices, again.Cyborg.Devices()); diff != "" {
			t.Errorf("devices (-before +after):\n%s", diff)
		}
		if !strings.Contains(log.String(), "host=cn0") {
			t.Errorf("the log does not name the host: %s", log.String())
		}
		must(t, again.Close())
	}
}

func TestACloudGoesOnInItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state")
	vgpu := givenBy(t, "nvidia-vgpu")
	open := func(m simcloud.Model) (*simcloud.Cloud, error) {
		return simcloud.New(t.Context(), m, simcloud.WithClock(manual()), simcloud.WithStateFile(file))
	}
	first, err := open(oneHost(vgpu))
	must(t, err)
	spawnerOn(t, first).spawn(t, 1, vgpu)
	synctest.Test(t, func(t *testing.T) {
		if _, err := open(oneHost(vgpu)); err == nil || !strings.Contains(err.Error(), "another process has it open") {
			t.Errorf("a file that is in use: got %v", err)
		}
	})
	before := dump(t, first)
	must(t, first.Close())
	kept, err := simcloud.ReadStateFile(file)
	must(t, err)
	sameState(t, "in the file", before, kept)
	model, err := simcloud.ReadStateFileModel(file)
	if diff := cmp.Diff(first.Model(), model); err != nil || diff != "" {
		t.Errorf("the model of the file: error %v, (-want +got):\n%s", err, diff)
	}

	if _, err := open(simcloud.Model{}); !errors.Is(err, simcloud.ErrState) || !strings.Contains(err.Error(), "another model: ") {
		t.Errorf("another model: got %v, want ErrState", err)
	}
	if _, err := simcloud.FromState(t.Context(), before, simcloud.WithStateFile(file)); !errors.Is(err, simcloud.ErrState) {
		t.Errorf("a file that is not new: got %v, want ErrState", err)
	}
	second := closing(t)(open(oneHost(vgpu)))
	second.CheckNoLeaks(t)
	spawnerOn(t, second).release(t, 1)
	if got := second.Cyborg.ARQs(); len(got) != 0 {
		t.Errorf("requests after the release: %v", got)
	}
}

func TestAFileThatIsNotAStateFileIsKept(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"text": "a letter to my aunt", "zeros": strings.Repeat("\x00", 64<<10), "a dump": `{"schema_version": 1}`} {
		file := filepath.Join(t.TempDir(), "state")
		write(t, file, content)
		if _, err := simcloud.New(t.Context(), simcloud.Model{}, simcloud.WithStateFile(file)); !errors.Is(err, simcloud.ErrState) {
			t.Errorf("%s: got %v, want ErrState", name, err)
		}
		if _, err := simcloud.ReadStateFile(file); !errors.Is(err, simcloud.ErrState) {
			t.Errorf("read %s: got %v, want ErrState", name, err)
		}
		if _, err := simcloud.ReadStateFileModel(file); !errors.Is(err, simcloud.ErrState) {
			t.Errorf("read the model of %s: got %v, want ErrState", name, err)
		}
		if got := read(t, file); got != content {
			t.Errorf("%s: the file has changed", name)
		}
	}
}

func TestTheDifferenceOfTwoStatesReadsLikeWhatHappened(t *testing.T) {
	t.Parallel()
	cloud := closing(t)(simcloud.New(t.Context(), simcloud.Model{}, simcloud.WithClock(manual())))
	before := dump(t, cloud)
	guest := sim.Guest{UUID: instance(1), Host: "cn0"}
	must(t, cloud.DefineGuest(guest))
	admin := login(t, cloud, "admin", "admin")
	admin.do(http.MethodPost, "/accelerator/v2/accelerator_requests", accelerator, map[string]string{"device_profile_name": "gpu"}, http.StatusCreated, nil)
	admin.do(http.MethodPut, "/placement/traits/CUSTOM_NEW", placement, nil, http.StatusCreated, nil)
	found, err := simcloud.State(before).Diff(dump(t, cloud))
	must(t, err)
	var lines []string
	for _, d := range found {
		lines = append(lines, d.String())
	}
	for _, want := range []string{
		`(?m)^\+ compute\..*guests\[.*: \{.*"host":"cn0".*` + guest.UUID,
		`(?m)^\+ accelerator\..*accelerator_requests\[.*\]: \{.*"state":"Initial"`,
		`(?m)^\+ placement\..*traits\[.*\]: \{.*CUSTOM_NEW`,
	} {
		if !regexp.MustCompile(want).MatchString(strings.Join(lines, "\n")) {
			t.Errorf("no line %s in:\n%s", want, strings.Join(lines, "\n"))
		}
	}
	if len(found) > 20 {
		t.Errorf("%d differences are too many to read:\n%s", len(found), strings.Join(lines, "\n"))
	}
	if again, err := simcloud.State(before).Diff(before); err != nil || len(again) != 0 {
		t.Errorf("of one state: %v, %v", again, err)
	}
	if _, err := simcloud.State(before).Diff([]byte("{}")); !errors.Is(err, simcloud.ErrState) {
		t.Errorf("of no state: got %v, want ErrState", err)
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	must(t, os.WriteFile(file, []byte(content), 0o600))
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	return string(data)
}

func TestTheStateGoesOverHTTP(t *testing.T) {
	t.Parallel()
	cloud := closing(t)(simcloud.New(t.Context(), simcloud.Model{}, simcloud.WithClock(manual())))
	admin := login(t, cloud, "admin", "admin")
	begin := admin.send(http.MethodGet, "/_sim/state", "", "")
	admin.do(http.MethodPut, "/_sim/guests/"+instance(1), "", map[string]string{"host": "cn0"}, http.StatusOK, nil)
	if put := admin.send(http.MethodPut, "/_sim/state", "", begin.body); put.status != http.StatusNoContent {
		t.Fatalf("PUT: %d %s", put.status, put.body)
	}
	if end := admin.send(http.MethodGet, "/_sim/state", "", ""); end.body != begin.body {
		sameState(t, "after PUT", []byte(begin.body), []byte(end.body))
	}
	if put := admin.send(http.MethodPut, "/_sim/state", "", "{"); put.status != http.StatusBadRequest {
		t.Errorf("half a state: %d %s", put.status, put.body)
	}
	if again := admin.send(http.MethodGet, "/placement/traits", placement, ""); again.status != http.StatusOK {
		t.Errorf("the token of before: %d %s", again.status, again.body)
	}
}

func TestWaitersKeepWaitingWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := manual()
		cloud := closing(t)(simcloud.New(t.Context(), simcloud.Model{}, simcloud.WithClock(clock)))
		begin := dump(t, cloud)
		clock.Advance(2 * time.Hour)
		waited := make(chan error, 1)
		go func() { waited <- clock.Wait(t.Context(), time.Minute) }()
		synctest.Wait()
		must(t, cloud.Load(begin))
		if got, want := clock.Now(), manual().Now(); !got.Equal(want) {
			t.Errorf("the time is %s, want the time of the dump, %s", got, want)
		}
		clock.Advance(59 * time.Second)
		synctest.Wait()
		if len(waited) > 0 {
			t.Error("a wait ended too early")
		}
		clock.Advance(time.Second)
		synctest.Wait()
		if len(waited) == 0 {
			t.Error("a wait did not end after its time")
		}
	})
}

// endless is a body that goes on with blanks for ever.
type endless struct{ beginning *strings.Reader }

func (e endless) Read(p []byte) (int, error) {
	if n, err := e.beginning.Read(p); err == nil {
		return n, nil
	}
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestAStateIsReadAsItArrives(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	w := httptest.NewRecorder()
	body := endless{strings.NewReader("{\"schema_version\":2,\"model\":{}}\n{\"table\":1}\n")}
	cloud.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/_sim/state", body))
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "line 2") {
		t.Errorf("an invalid record, and a truncated body: %d %s", w.Code, w.Body)
	}
}

// A state longer than 1 GiB is refused by its announced length, or where it passes the limit.
func TestAStateThatIsTooLongIsRefused(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	announced := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/_sim/state", strings.NewReader("{}"))
	announced.ContentLength = 1<<30 + 1
	chunked := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/_sim/state", nil)
	chunked.Body = http.MaxBytesReader(nil, io.NopCloser(endless{strings.NewReader("{\"schema_version\":2,")}), 1000)
	for name, r := range map[string]*http.Request{"announced": announced, "chunked": chunked} {
		w := httptest.NewRecorder()
		cloud.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "too large") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// A load that is refused leaves the cloud as it was: what goes on in it ends as it would have.
func TestARefusedLoadDoesNotEndBinds(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"not a state":        `{`,
		"unknown table":      `{"table":"compute.flavours","key":"0000000001","row":{}}`,
		"in the last tables": `{"table":"sim.faults","key":"rules","row":{"colour":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := simcloud.Model{}
				m.Cyborg = fakecyborg.Config{AsyncBind: true, BindDelay: 30 * time.Second}
				cloud := simcloud.Run(t, m)
				u := login(t, cloud, "admin", "admin")
				provider, host := u.claim(instance(1), "PGPU:1", "CUSTOM_GPU_NVIDIA")
				u.bind(u.createARQs("gpu")[0], instance(1), provider, host)
				synctest.Wait()
				if err := cloud.Load(append(dump(t, cloud), line+"\n"...)); !errors.Is(err, simcloud.ErrState) {
					t.Fatalf("error %v", err)
				}
				time.Sleep(31 * time.Second)
				synctest.Wait()
				if got := cloud.Cyborg.ARQs()[0].State; got != fakecyborg.StateBound {
					t.Errorf("the ARQ is %s", got)
				}
			})
		})
	}
}

// A load that waits for an agent has changed nothing yet, and ends with its client.
func TestALoadThatWaitsForAnAgentChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud := simcloud.Run(t)
		clean := dump(t, cloud)
		must(t, cloud.Faults().Set(fault.Rule{Operation: fault.AgentReport, Action: fault.Delay, Delay: time.Hour}))
		var reported sync.WaitGroup
		reported.Go(func() { _ = cloud.Cyborg.Report(t.Context()) })
		synctest.Wait()
		ctx, leave := context.WithTimeout(t.Context(), time.Minute)
		defer leave()
		var answered sync.WaitGroup
		w := httptest.NewRecorder()
		answered.Go(func() {
			cloud.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPut, "/_sim/state", bytes.NewReader(clean)))
		})
		synctest.Wait()
		if _, err := cloud.Placement.CreateProvider(placementsim.ResourceProvider{Name: "late"}); err != nil {
			t.Fatal(err)
		}
		now := dump(t, cloud)
		answered.Wait()
		if w.Code == http.StatusNoContent {
			t.Error("loaded, although its client has left")
		}
		sameState(t, "after the client has left", now, dump(t, cloud))
		reported.Wait()
		if err := cloud.Load(clean); err != nil {
			t.Errorf("load once the agent has reported: %v", err)
		}
	})
}

// A start that is cancelled loses nothing of the file, including its fault rules, which do not
// apply to the first report of the agents. It logs nothing about the agents.
func TestACancelledStartLosesNoFaultRule(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state")
	var log bytes.Buffer
	open := func(ctx context.Context) (*simcloud.Cloud, error) {
		return simcloud.New(ctx, oneHost(givenBy(t, "nvidia-vgpu")), simcloud.WithStateFile(file), simcloud.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	}
	cloud, err := open(t.Context())
	must(t, err)
	rule := fault.Rule{Operation: fault.DeviceFind, Action: fault.Drop, Times: -1}
	must(t, errors.Join(cloud.Faults().Set(rule), cloud.Close()))
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := open(ended); !errors.Is(err, context.Canceled) {
		t.Fatalf("the start: %v, want it ended", err)
	}
	if log.Len() > 0 {
		t.Errorf("the log: %s", &log)
	}
	cloud = closing(t)(open(t.Context()))
	if rules := cloud.Faults().Rules(); len(rules) != 1 || rules[0].Rule != rule {
		t.Errorf("rules %v, want %v", rules, rule)
	}
	if devices := cloud.Cyborg.Devices(); len(devices) == 0 {
		t.Error("no device: the rule applied to the first report")
	}
}

// A model with its defaults spelled out, for example by a flag of cysim serve, is the same model.
func TestAStateFitsItsModelWithExplicitDefaults(t *testing.T) {
	t.Parallel()
	required := true // is X-Service-Token, in 2026.2
	spelled := simcloud.Model{
		Hosts: []simcloud.Host{}, Region: "RegionOne", TokenLifetime: time.Hour, Users: simcloud.DefaultModel().Users,
		Cyborg: fakecyborg.Config{
			Release: fakecyborg.Release20262, PlacementMode: fakecyborg.ModeTree, EventForm: fakecyborg.EventFormShipped, MdevCreation: fakecyborg.MdevsByAgent,
			BindTimeout: time.Minute, HeartbeatPeriod: 10 * time.Second, MissedBeats: 3, RequireServiceToken: &required,
		},
		Placement: placementsim.Config{
			Release: placementsim.Release20262, Policy: placementsim.PolicySecure, GenerationStrategy: placementsim.StrategyDepthFirst,
			MaxAllocationCandidates: -1,
		},
	}
	for i := range spelled.Users {
		spelled.Users[i].Password = simcloud.Password
	}
	for name, models := range map[string][2]simcloud.Model{
		"with the defaults":    {{Hosts: []simcloud.Host{}}, spelled},
		"without the defaults": {spelled, {Hosts: []simcloud.Host{}}},
	} {
		file := filepath.Join(t.TempDir(), "state")
		for _, model := range models {
			cloud, err := simcloud.New(t.Context(), model, simcloud.WithStateFile(file))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			must(t, cloud.Close())
		}
	}
}
