package fakecyborg_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
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
	"github.com/gocyborg/gocyborg/sim"
)

// object is a row of a dump.
type object = map[string]any

// tablesOf are the rows of a dump by table.
type tablesOf = map[string][]object

// parsed takes a dump apart.
func parsed(tb testing.TB, data []byte) tablesOf {
	tb.Helper()
	all := make(tablesOf)
	dec := json.NewDecoder(bytes.NewReader(data))
	for dec.More() {
		var r sim.Record
		var row object
		err := dec.Decode(&r)
		if err == nil {
			err = json.Unmarshal(r.Row, &row)
		}
		settled(tb, err)
		table := strings.TrimPrefix(r.Table, "accelerator.")
		all[table] = append(all[table], row)
	}
	return all
}

// changed returns a changed dump. The keys follow the rows.
func changed(t *testing.T, data []byte, change func(tablesOf)) []byte {
	t.Helper()
	d := parsed(t, data)
	change(d)
	var b bytes.Buffer
	for _, table := range slices.Sorted(maps.Keys(d)) {
		for _, row := range d[table] {
			text, err := json.Marshal(row)
			if err == nil {
				err = json.NewEncoder(&b).Encode(sim.Record{Table: "accelerator." + table, Key: keyOf(row), Row: text})
			}
			settled(t, err)
		}
	}
	return b.Bytes()
}

func keyOf(row object) string {
	for _, field := range []string{"id", "uuid", "hostname", "name"} {
		switch key := row[field].(type) {
		case string:
			return key
		case float64:
			return fmt.Sprintf("%010d", int64(key))
		case int:
			return fmt.Sprintf("%010d", key)
		}
	}
	return ""
}

// badDump is a change of the dump of a full world, and what the refusal says.
type badDump struct {
	change func(tablesOf)
	says   string
}

// put is a change of one field of a row.
func put(table string, index int, field string, value any) func(tablesOf) {
	return func(d tablesOf) { d[table][index][field] = value }
}

// same is a change that gives two rows the same value.
func same(table, field string) func(tablesOf) {
	return func(d tablesOf) { d[table][1][field] = d[table][0][field] }
}

// find is the first row with a value.
func find(d tablesOf, table, field string, value any) object {
	for _, r := range d[table] {
		if r[field] == value {
			return r
		}
	}
	panic("no " + table + " with " + field)
}

func badTables() map[string]badDump {
	again := func(table string) func(tablesOf) {
		return func(d tablesOf) { d[table] = append(d[table], d[table][0]) }
	}
	return map[string]badDump{
		"unknown table":       {func(d tablesOf) { d["tenants"] = []object{{"id": 1}} }, "no such table"},
		"unknown row field":   {put("devices", 0, "colour", "red"), "colour"},
		"a device twice":      {again("devices"), "two rows"},
		"an attribute twice":  {again("attributes"), "two rows"},
		"a handle twice":      {again("attach_handles"), "two rows"},
		"a profile twice":     {again("device_profiles"), "two rows"},
		"last too low":        {func(d tablesOf) { find(d, "sequences", "name", "attach_handles")["last"] = 1 }, "the sequence attach_handles is at 1 only"},
		"agent twice":         {again("agents"), "two rows"},
		"agent of nowhere":    {put("agents", 0, "hostname", ""), "no hostname"},
		"fell back":           {put("agents", 0, "fell_back", true), "fell back to none"},
		"beats":               {put("agents", 0, "returns_at", "2020-01-01T00:00:00Z"), "of an agent that runs"},
		"late":                {put("agents", 0, "started_at", "9999-12-31T23:00:00-10:00"), "years"},
		"flat share":          {func(d tablesOf) { d["resource_providers"] = []object{{"uuid": unknownID, "hostname": "a"}} }, `placement mode is "tree"`},
		"provider of nowhere": {func(d tablesOf) { d["resource_providers"] = []object{{"uuid": unknownID, "name": "a"}} }, "no hostname"},
	}
}

func badRows() map[string]badDump {
	const one = 0
	return map[string]badDump{
		"id 0":             {put("devices", one, "id", -1), "out of range"},
		"on no device":     {put("deployables", one, "device", ""), "no device"},
		"of nothing":       {put("attributes", one, "deployable", ""), "no deployable"},
		"handle of none":   {put("attach_handles", one, "deployable", ""), "no deployable"},
		"id twice":         {put("device_profiles", 1, "id", 1), "two rows"},
		"deployable uuid":  {put("deployables", one, "uuid", "x"), `"x" is not a UUID`},
		"attribute uuid":   {put("attributes", one, "uuid", "x"), `"x" is not a UUID`},
		"handle uuid":      {put("attach_handles", one, "uuid", "x"), `"x" is not a UUID`},
		"arq uuid":         {put("accelerator_requests", one, "uuid", "x"), `"x" is not a UUID`},
		"profile uuid":     {put("device_profiles", one, "uuid", "x"), `"x" is not a UUID`},
		"no uuid":          {put("devices", one, "uuid", "x"), `"x" is not a UUID`},
		"same uuid":        {same("devices", "uuid"), "has the same"},
		"year":             {put("devices", one, "created_at", "0001-01-01T00:00:00+10:00"), "years"},
		"profile name":     {put("device_profiles", one, "name", "a b"), "name must be"},
		"no groups":        {put("device_profiles", one, "groups", []any{}), "no groups"},
		"group of numbers": {put("device_profiles", one, "groups", []any{[]any{object{"key": "resources:X", "value": 1}}}), "cannot unmarshal number"},
		"huge groups": {put("device_profiles", one, "groups", []any{
			[]any{object{"key": "resources:VGPU", "value": "1024"}}, []any{object{"key": "resources:PGPU", "value": "1"}},
		}), "group 1: more than 1024"},
		"no host":           {put("devices", one, "hostname", ""), "hostname"},
		"status":            {put("devices", one, "status", "broken"), `status "broken"`},
		"type":              {put("devices", one, "type", "TPU"), "TPU"},
		"no vendor":         {put("devices", one, "vendor", ""), "no vendor"},
		"no path":           {put("devices", one, "controlpath_id", object{"cpid_type": "PCI", "cpid_info": object{}}), "no control path"},
		"nested":            {put("devices", one, "nested", true), "nested"},
		"no device":         {put("deployables", one, "device", unknownID), "device: there is no"},
		"total":             {put("deployables", one, "num_accelerators", -1), "num_accelerators -1"},
		"huge total":        {put("deployables", one, "num_accelerators", math.MaxInt32+1), "num_accelerators 2147483648"},
		"provider":          {put("deployables", one, "rp_uuid", "gpu"), `rp_uuid "gpu"`},
		"same provider":     {same("deployables", "rp_uuid"), "rp_uuid"},
		"same name":         {same("deployables", "name"), "has the same"},
		"memory":            {put("deployables", one, "resources", object{"CUSTOM_A": 0}), "CUSTOM_A 0"},
		"memory class":      {put("deployables", one, "resources", object{"memory": 1}), "memory"},
		"loaded nothing":    {put("deployables", one, "region", object{"content": "written", "trait": "CUSTOM_A"}), `content "written", image ""`},
		"presence":          {put("deployables", one, "presence", "gone"), `presence "gone"`},
		"earlier version":   {put("deployables", one, "reported_functions", []any{}), "reported_functions"},
		"no deployable":     {put("attributes", one, "deployable", unknownID), "deployable: there is no"},
		"attribute key":     {same("attributes", "key"), `attribute "rc" is there already`},
		"handle of nothing": {put("attach_handles", one, "deployable", unknownID), "deployable: there is no"},
		"handle type":       {put("attach_handles", one, "attach_type", "USB"), "USB"},
		"handle info":       {put("attach_handles", one, "attach_info", object{"bus": "zz"}), "attach_handles 0000000001"},
		"handle state":      {put("attach_handles", one, "state", "gone"), "\"gone\" is not a state"},
	}
}

func badRequests() map[string]badDump {
	const bound, initial, started = "Bound", "Initial", "BindStarted"
	arq := func(state, field string, value any) func(tablesOf) {
		return func(d tablesOf) { find(d, "accelerator_requests", "state", state)[field] = value }
	}
	bind := func(more ...object) func(tablesOf) {
		return func(d tablesOf) {
			a := find(d, "accelerator_requests", "state", started)
			for i, fields := range more {
				row := object{
					"id": i + 1, "patch": 1, "accelerator_request": a["uuid"], "instance_uuid": a["instance_uuid"], "attempt": a["attempt"],
					"device_profile_name": "v", "attach_handle": a["attach_handle"],
				}
				maps.Copy(row, fields)
				d["binds"] = append(d["binds"], row)
			}
		}
	}
	// freed takes the handle of the request that is being bound.
	freed := func(d tablesOf) {
		a := find(d, "accelerator_requests", "state", started)
		h := find(d, "attach_handles", "uuid", a["attach_handle"])
		for _, field := range []string{"held_by", "state"} {
			delete(h, field)
		}
		delete(a, "attach_handle")
	}
	return map[string]badDump{
		"state":             {arq(initial, "state", "Lost"), `state "Lost"`},
		"unknown":           {arq(initial, "state", "unknown"), `state "unknown"`},
		"profile":           {arq(initial, "device_profile_name", "w"), "device_profile_name: there is no"},
		"group":             {arq(initial, "device_profile_group_id", 2), "has no group 2"},
		"negative group":    {arq(initial, "device_profile_group_id", -1), "has no group -1"},
		"idle, with a host": {arq(initial, "hostname", "cn1"), "Initial with hostname"},
		"bound to nothing":  {func(d tablesOf) { delete(find(d, "accelerator_requests", "state", bound), "attach_handle") }, "without an attach handle"},
		"no handle":         {arq(bound, "attach_handle", unknownID), "attach_handle: there is no"},
		"idle, with handle": {func(d tablesOf) {
			a := find(d, "accelerator_requests", "state", bound)
			find(d, "accelerator_requests", "state", initial)["attach_handle"] = a["attach_handle"]
		}, "Initial with"},
		"two of a handle": {func(d tablesOf) {
			a := find(d, "accelerator_requests", "state", bound)
			b := find(d, "accelerator_requests", "state", "BindFailed")
			b["attach_handle"], b["device_rp_uuid"] = a["attach_handle"], a["device_rp_uuid"]
		}, "is held by"},
		"handle not in use": {func(d tablesOf) {
			a := find(d, "accelerator_requests", "state", bound)
			delete(find(d, "attach_handles", "uuid", a["attach_handle"]), "state")
		}, "held, and free"},
		"other provider":  {arq(bound, "device_rp_uuid", unknownID), "on provider"},
		"no such image":   {arq(initial, "bitstream", object{"by": "colour", "value": "a"}), "colour"},
		"bind result":     {bind(object{"result": "Unbound"}), `result "Unbound"`},
		"bind of no bind": {func(d tablesOf) { bind(object{})(d); arq(started, "state", "BindFailed")(d) }, "is not being bound"},
		"bind of nothing": {func(d tablesOf) { freed(d); bind(object{})(d) }, "is not being bound"},
		"bind twice":      {bind(object{}, object{}), "bound twice"},
		"other instance":  {bind(object{"instance_uuid": instanceB}), "the request is of instance"},
		"odd program":     {bind(object{"bitstream": object{"by": "a", "value": "b"}}), "bitstream"},
	}
}

func TestABadDumpChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := fullWorld(t)
		w.use(card)
		held := ""
		for _, a := range w.server.ARQs() {
			if a.State == fakecyborg.StateBound && a.InstanceUUID == instanceA {
				held = a.UUID
			}
		}
		settled(t, w.server.SetARQState(held, fakecyborg.StateBindStarted))
		w.arqs("v")
		before := dumped(t, w.server)
		refused := func(what string, data []byte, says string) {
			t.Helper()
			err := load(w.server, data)
			if !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: got error %v, want ErrRecords and %q", what, err, says)
			}
			if diff := cmp.Diff(string(before), string(dumped(t, w.server))); diff != "" {
				t.Fatalf("%s: refused, yet changed (-want +got):\n%s", what, diff)
			}
		}
		for what, list := range map[string]map[string]badDump{"tables": badTables(), "rows": badRows(), "requests": badRequests()} {
			for name, bad := range list {
				refused(what+", "+name, changed(t, before, bad.change), bad.says)
			}
		}
	})
}

// What a dump may hold at most is loaded; one more is refused, see [badRows].
func TestADumpMayReachTheLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, card := fullWorld(t)
		w.use(card)
		before := dumped(t, w.server)
		for name, change := range map[string]func(tablesOf){
			"last year":    put("devices", 0, "created_at", "9999-12-31T23:59:59Z"),
			"memory":       put("deployables", 0, "resources", object{"CUSTOM_A": 1}),
			"accelerators": put("deployables", 0, "num_accelerators", math.MaxInt32),
			"requests": func(d tablesOf) {
				find(d, "device_profiles", "name", "g")["groups"] = []any{[]any{object{"key": "resources:PGPU", "value": "1024"}}}
			},
		} {
			if err := load(w.server, changed(t, before, change)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestADumpIsOfOnePlacementMode(t *testing.T) {
	t.Parallel()
	share := func(fields string) string {
		return `{"table": "accelerator.resource_providers", "key": "` + unknownID + `", "row": {"uuid": "` + unknownID + `", "hostname": "a", ` + fields + `}}`
	}
	for mode, bad := range map[fakecyborg.PlacementMode][]string{
		fakecyborg.ModeFlat: {
			share(`"applied": {"inventories": [{"resource_class": "X", "total": -1}]}`),
			share(`"pending": {"inventories": [{"resource_class": "", "total": 1}]}`),
			share(`"name": "a"`),
		},
		fakecyborg.ModeNested: {share(`"applied": {}`)},
	} {
		s := newServer(t, fakecyborg.Config{PlacementMode: mode})
		for _, record := range bad {
			if err := load(s, []byte(record)); !errors.Is(err, sim.ErrRecords) {
				t.Errorf("%s: %s: got error %v", mode, record, err)
			}
		}
		settled(t, load(s, nil))
	}
}

// A host that fell back is known by its other name.
func TestADumpRefersToHostsByName(t *testing.T) {
	t.Parallel()
	s := newServer(t, fakecyborg.Config{})
	settled(t, s.AddHost(driver.Host{Name: "cn0.example", Fallback: "cn0"}))
	agent := func(fields string) error {
		return load(s, []byte(`{"table": "accelerator.agents", "key": "cn0.example", "row": {"hostname": "cn0.example", "started_at": "2020-01-01T00:00:00Z"`+fields+`}}`))
	}
	settled(t, agent(`, "fallback": "cn0", "fell_back": true`))
	if tree := s.Tree(); !strings.HasPrefix(tree, "host cn0\n") {
		t.Errorf("the host is not known by its fallback: %s", tree)
	}
	settled(t, agent(""))
	if tree := s.Tree(); !strings.HasPrefix(tree, "host cn0.example\n") {
		t.Errorf("the host is not known by its name again: %s", tree)
	}
}

// A state whose sequences are behind its rows gives no UUID twice.
func TestNewRowsHaveUUIDsThatTheLoadedOnesDoNotHave(t *testing.T) {
	t.Parallel()
	s := newServer(t, fakecyborg.Config{})
	create := func(profile string) string {
		t.Helper()
		made, err := s.CreateDeviceProfile(profile, []map[string]string{{"resources:FPGA": "1"}})
		settled(t, err)
		arqs, err := s.CreateARQs(profile, "p")
		settled(t, err)
		return made.UUID + " " + arqs[0].UUID
	}
	before := create("a")
	state := string(dumped(t, s))
	for _, sequence := range []string{"arq_uuids", "device_profile_uuids"} {
		at := `"name":"` + sequence + `","last":1`
		if !strings.Contains(state, at) {
			t.Fatalf("no %s in the state:\n%s", at, state)
		}
		state = strings.Replace(state, at, `"name":"`+sequence+`","last":0`, 1)
	}
	settled(t, load(s, []byte(state)))
	if after := create("b"); after == before {
		t.Errorf("the new rows have the UUIDs of the old ones: %s", after)
	}
	if arqs := s.ARQs(); len(arqs) != 2 || arqs[0].UUID == arqs[1].UUID {
		t.Errorf("the requests are %v", arqs)
	}
}

// A state from elsewhere may have the provider of a card on a deployable of another name, for
// example after the host was renamed.
func TestCardWithAProviderOfAnotherDeployableIsNotReported(t *testing.T) {
	t.Parallel()
	card := newHardware("test", vgpu("af", 2))
	w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card})
	w.profile("v", `[{"resources:VGPU":"1"}]`)
	binding := fakecyborg.Binding{ARQ: w.arqs("v")[0], Host: "cn0", Provider: vgpuProvider(), Instance: instanceA}
	settled(t, w.server.Bind(t.Context(), binding))
	state := strings.ReplaceAll(string(dumped(t, w.server)), `"name":"cn0_0000:af:00.0"`, `"name":"old_0000:af:00.0"`)
	settled(t, load(w.server, []byte(state)))
	err := w.server.Report(t.Context())
	if err == nil || !strings.Contains(err.Error(), "deployable cn0_0000:af:00.0: its provider "+vgpuProvider()+" is that of deployable old_0000:af:00.0") {
		t.Errorf("the report while a request holds a handle: %v", err)
	}
	loaded(t, w.server, dumped(t, w.server))
	w.delete("/v2/accelerator_requests?instance=" + instanceA)
	if err := w.server.Report(t.Context()); err != nil {
		t.Errorf("the report after the release: %v", err)
	}
	loaded(t, w.server, dumped(t, w.server))
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"table": "accelerator.agents", "key": "cn0", "row": {"hostname": "cn0", "started_at": "2020-01-01T00:00:00Z", "last_beat_at": "2020-01-01T00:00:00Z", "returns_at": "2020-01-01T00:00:00Z"}}`))
	f.Add(smallDump(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			card := newHardware("test", vgpu("af", 2))
			w := newWorld(t, fakecyborg.Config{BindDelay: time.Second}, []driver.Driver{card}, withImages(t))
			before := dumped(t, w.server)
			if load(w.server, data) != nil {
				if !bytes.Equal(before, dumped(t, w.server)) {
					t.Fatal("refused, yet changed")
				}
				return
			}
			loaded(t, w.server, dumped(t, w.server))
			w.server.Resume()
			time.Sleep(time.Hour)
			_ = w.server.Report(t.Context())
			for _, a := range w.server.ARQs() {
				// A device may be on a host that this server does not have: its agent cannot remove a mediated device.
				if r := w.delete("/v2/accelerator_requests?arqs=" + a.UUID); !strings.Contains(r.text, "no agent on host") {
					checkAnswer(t, r)
				}
			}
			_ = w.server.Tree()
			loaded(t, w.server, dumped(t, w.server))
		})
	})
}

// smallDump is a dump with a bind in progress, and little else.
func smallDump(f *testing.F) []byte {
	f.Helper()
	s := newServer(f, fakecyborg.Config{BindDelay: time.Hour})
	card := newHardware("test", vgpu("af", 2))
	settled(f, s.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{card}}))
	settled(f, s.Report(f.Context()))
	_, err := s.CreateDeviceProfile("v", []map[string]string{{"resources:VGPU": "1"}})
	settled(f, err)
	arqs, err := s.CreateARQs("v", "p")
	settled(f, err)
	settled(f, s.Bind(f.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: vgpuProvider(), Instance: instanceA}))
	return dumped(f, s)
}

// slowDriver finds its devices once it may.
type slowDriver struct {
	*hardware
	may chan struct{}
}

func (d slowDriver) Discover(ctx context.Context) (driver.Report, error) {
	<-d.may
	return d.hardware.Discover(ctx)
}

// A report in progress would put half of what it found into the state that was
// loaded.
func TestLoadWaitsForReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, fakecyborg.Config{})
		slow := slowDriver{newHardware("test", vgpu("af", 2)), make(chan struct{})}
		settled(t, s.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{slow}}))
		empty := dumped(t, s)
		var report, load sync.WaitGroup
		report.Go(func() { _ = s.Report(t.Context()) })
		synctest.Wait()
		load.Go(func() {
			loaded(t, s, empty)
		})
		synctest.Wait()
		close(slow.may)
		report.Wait()
		load.Wait()
		if got := s.Devices(); len(got) != 0 {
			t.Errorf("devices %v, want none, as in the dump", got)
		}
		if err := s.Report(t.Context()); err != nil || len(s.Devices()) != 1 {
			t.Errorf("report after the load: %v, devices %v", err, s.Devices())
		}
	})
}

// A bind that waits for its agent changes nothing in a state that is loaded during the wait, even
// if its request and its handle are unchanged there.
func TestABindOfAnotherStateLeavesTheLoadedOneAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := fault.NewSet()
		w, card := vgpuWorld(t, fakecyborg.Config{}, 2, 1, fakecyborg.WithFaults(faults))
		arq := w.arqs("v")[0]
		before := dumped(t, w.server)
		bindWithin := func(instance string, delay time.Duration, result *reply) (wait func()) {
			settled(t, faults.Set(fault.Rule{Operation: fault.AgentCall, Subject: "cn0", Action: fault.Delay, Delay: delay, Times: 1}))
			var bind sync.WaitGroup
			bind.Go(func() { *result = w.patch(binding(instance, vgpuProvider(), arq)) })
			synctest.Wait()
			return bind.Wait
		}
		var first, second reply
		waitForFirst := bindWithin(instanceA, time.Minute, &first)
		loaded(t, w.server, before)
		waitForSecond := bindWithin(instanceB, time.Hour, &second)
		waitForFirst()
		if first.status == http.StatusAccepted || card.present() != 0 {
			t.Errorf("the bind of the state before: %d, %d mediated devices", first.status, card.present())
		}
		if got := w.server.ARQs()[0]; got.State != fakecyborg.StateBindStarted || got.InstanceUUID != instanceB {
			t.Errorf("ARQ %+v, want that its bind to %s goes on", got, instanceB)
		}
		waitForSecond()
		if got := w.server.ARQs()[0]; second.status != http.StatusAccepted || got.State != fakecyborg.StateBound || card.present() != 1 {
			t.Errorf("%d, ARQ %+v, %d mediated devices, want a bind", second.status, got, card.present())
		}
	})
}

func TestABindInTheBackgroundSendsNoEventIntoAnotherState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := fault.NewSet()
		w, card := vgpuWorld(t, fakecyborg.Config{AsyncBind: true}, 2, 1, fakecyborg.WithFaults(faults))
		arq := w.arqs("v")[0]
		before := dumped(t, w.server)
		settled(t, faults.Set(fault.Rule{Operation: fault.AgentCall, Subject: "cn0", Action: fault.Delay, Delay: time.Minute, Times: 1}))
		w.want(w.patch(binding(instanceA, vgpuProvider(), arq)), 202, "")
		synctest.Wait()
		loaded(t, w.server, before)
		elapse(time.Hour)
		if posts := w.nova.sent(); len(posts) > 0 || card.present() > 0 || w.server.ARQs()[0].State != fakecyborg.StateInitial {
			t.Errorf("events %v, %d mediated devices, ARQ %+v", posts, card.present(), w.server.ARQs()[0])
		}
	})
}

func TestADelayedEventIsNotSentIntoAnotherState(t *testing.T) {
	t.Parallel()
	for _, async := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			faults := fault.NewSet()
			w, _ := vgpuWorld(t, fakecyborg.Config{AsyncBind: async}, 2, 1, fakecyborg.WithFaults(faults))
			arq := w.arqs("v")[0]
			before := dumped(t, w.server)
			settled(t, faults.Set(fault.Rule{Operation: fault.EventSend, Action: fault.Delay, Delay: time.Minute}))
			go w.patch(binding(instanceA, vgpuProvider(), arq))
			synctest.Wait()
			loaded(t, w.server, before)
			elapse(time.Hour)
			if posts := w.nova.sent(); len(posts) > 0 {
				t.Errorf("async %t: events %v", async, posts)
			}
		})
	}
}

// A device that vanishes while an image is written to it stays until that has ended.
func TestAStateWithAProgrammingOfADeviceThatVanishedIsLoaded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := fault.NewSet()
		card := newHardware("test", fpgaCard("FPGA"))
		w := newWorld(t, fakecyborg.Config{}, []driver.Driver{card}, withImages(t), fakecyborg.WithFaults(faults))
		settled(t, faults.Set(
			fault.Rule{Operation: fault.DeployableWrite, Action: fault.Delay, Delay: time.Minute},
			fault.Rule{Operation: fault.DeviceFind, Action: fault.Drop, Times: 2},
		))
		var programming sync.WaitGroup
		programming.Go(func() { w.programAPI(imageOne, "") })
		synctest.Wait()
		if err := w.server.Report(t.Context()); err == nil || !strings.Contains(err.Error(), "is being programmed") || len(w.server.Devices()) != 1 {
			t.Errorf("the report during the programming: %v, devices %v", err, w.server.Devices())
		}
		during := dumped(t, w.server)
		programming.Wait()
		if err := w.server.Report(t.Context()); err != nil || len(w.server.Devices()) > 0 {
			t.Errorf("the report after the programming: %v, devices %v", err, w.server.Devices())
		}
		settled(t, load(w.server, during))
	})
}
