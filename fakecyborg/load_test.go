package fakecyborg_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// object and row find their way in a dump.
type object = map[string]any

func row(d object, table string, index int) object { return d[table].([]any)[index].(object) }

// changed is a dump of which something was changed.
func changed(t *testing.T, data []byte, change func(object)) []byte {
	t.Helper()
	var d object
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	change(d)
	out, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// badDump is a change of the dump of a full world, and what the refusal says.
type badDump struct {
	change func(object)
	says   string
}

// put is a change of one field of a row.
func put(table string, index int, field string, value any) func(object) {
	return func(d object) { row(d, table, index)[field] = value }
}

// find is the index of the first row with a value.
func find(d object, table, field string, value any) object {
	for _, r := range d[table].([]any) {
		if r.(object)[field] == value {
			return r.(object)
		}
	}
	panic("no " + table + " with " + field)
}

func badTops() map[string]badDump {
	again := func(table string) func(object) {
		return func(d object) { d[table] = append(d[table].([]any), d[table].([]any)[0]) }
	}
	return map[string]badDump{
		"version":            {func(d object) { d["schema_version"] = 2 }, "schema_version 2, want 1"},
		"no version":         {func(d object) { delete(d, "schema_version") }, "schema_version 0"},
		"unknown field":      {func(d object) { d["tenants"] = 1 }, "tenants"},
		"unknown row field":  {put("devices", 0, "colour", "red"), "colour"},
		"other mode":         {func(d object) { d["placement_mode"] = "flat" }, `placement_mode "flat", the server has "tree"`},
		"a device twice":     {again("devices"), "at"},
		"an attribute twice": {again("attributes"), "twice"},
		"a handle twice":     {again("attach_handles"), "already"},
		"a profile twice":    {again("device_profiles"), `name "v" twice`},
		"last too low":       {func(d object) { d["ids"].(object)["last"].(object)["attach_handles"] = 1 }, "ids.last.attach_handles is 1"},
		"negative count":     {func(d object) { d["ids"].(object)["named"].(object)["arq"] = -1 }, "arq -1"},
		"unknown count":      {func(d object) { d["ids"].(object)["named"].(object)["tenant"] = 1 }, "tenant"},
		"agent twice":        {again("agents"), `host "cn0" is empty or there twice`},
		"agent of nowhere":   {put("agents", 0, "host", ""), "agents[0]"},
		"fell back":          {put("agents", 0, "fell_back", true), "cn0: it fell back"},
		"beats":              {put("agents", 0, "returns_at", "2020-01-01T00:00:00Z"), "of an agent that runs"},
		"late":               {put("agents", 0, "started_at", "9999-12-31T23:00:00-10:00"), "years"},
		"report time":        {put("driver_reports", 0, "at", "9999-12-31T23:00:00-10:00"), "driver_reports[0], host cn1"},
		"report order":       {func(d object) { d["driver_reports"] = append(d["driver_reports"].([]any), object{"host": "aa"}) }, `host "aa" after host "cn1"`},
		"flat share":         {func(d object) { d["placement"] = object{"compute_providers": []any{object{"uuid": unknownID}}} }, "compute_providers"},
		"regions":            {func(d object) { d["placement"] = object{"regions": []any{object{"name": "a", "device": "b"}}} }, "regions"},
		"empty bind":         {func(d object) { d["binds"] = []any{object{"accelerator_requests": []any{}}} }, "binds[0] is about no request"},
	}
}

func badRows() map[string]badDump {
	const one = 0
	return map[string]badDump{
		"id 0":              {put("devices", one, "id", 0), "id 0"},
		"id order":          {put("device_profiles", 1, "id", 1), "device_profiles[1]"},
		"part uuid":         {put("deployables", one, "uuid", "x"), `"x" is no uuid`},
		"attribute uuid":    {put("attributes", one, "uuid", "x"), `"x" is no uuid`},
		"handle uuid":       {put("attach_handles", one, "uuid", "x"), `"x" is no uuid`},
		"arq uuid":          {put("accelerator_requests", one, "uuid", "x"), `"x" is no uuid`},
		"profile uuid":      {put("device_profiles", one, "uuid", "x"), `"x" is no uuid`},
		"no uuid":           {put("devices", one, "uuid", "x"), `"x" is no uuid`},
		"same uuid":         {func(d object) { row(d, "devices", 1)["uuid"] = row(d, "devices", 0)["uuid"] }, "twice"},
		"year":              {put("devices", one, "created_at", "0001-01-01T00:00:00+10:00"), "years"},
		"profile name":      {put("device_profiles", one, "name", "a b"), "name must be"},
		"no groups":         {put("device_profiles", one, "groups", []any{}), "no groups"},
		"group of numbers":  {put("device_profiles", one, "groups", []any{object{"resources:X": 1}}), "resources:X"},
		"huge group":        {put("device_profiles", one, "groups", []any{object{"resources:VGPU": "100000"}}), "more than 1024"},
		"no host":           {put("devices", one, "hostname", ""), "hostname"},
		"status":            {put("devices", one, "status", "broken"), `status "broken"`},
		"type":              {put("devices", one, "type", "TPU"), "TPU"},
		"no vendor":         {put("devices", one, "vendor", ""), "no vendor"},
		"no path":           {put("devices", one, "controlpath_id", object{"cpid_type": "PCI", "cpid_info": object{}}), "no control path"},
		"parts":             {put("devices", one, "deployable_list", object{}), "deployable_list"},
		"stub":              {put("devices", one, "stub", true), "stub"},
		"nested":            {put("devices", one, "nested", true), "nested"},
		"no device":         {put("deployables", one, "device", unknownID), "there is no device"},
		"total":             {put("deployables", one, "num_accelerators", -1), "num_accelerators -1"},
		"provider":          {put("deployables", one, "rp_uuid", "gpu"), `rp_uuid "gpu"`},
		"same provider":     {func(d object) { row(d, "deployables", 1)["rp_uuid"] = row(d, "deployables", 0)["rp_uuid"] }, "rp_uuid"},
		"same name":         {func(d object) { row(d, "deployables", 1)["name"] = row(d, "deployables", 0)["name"] }, "twice"},
		"memory":            {put("deployables", one, "resources", object{"CUSTOM_A": 0}), "CUSTOM_A 0"},
		"memory class":      {put("deployables", one, "resources", object{"memory": 1}), "memory"},
		"loaded nothing":    {put("deployables", one, "loaded", object{"trait": "CUSTOM_A"}), "image_id"},
		"no deployable":     {put("attributes", one, "deployable", unknownID), "there is no deployable"},
		"attribute key":     {func(d object) { row(d, "attributes", 1)["key"] = row(d, "attributes", 0)["key"] }, `attribute "rc" twice`},
		"handle of nothing": {put("attach_handles", one, "deployable", ""), "there is no deployable"},
		"handle type":       {put("attach_handles", one, "attach_type", "USB"), "USB"},
		"handle info":       {put("attach_handles", one, "attach_info", object{"bus": "zz"}), "attach_handles[0]"},
		"gone and free":     {func(d object) { find(d, "attach_handles", "attach_type", "PCI")["gone"] = true }, "gone"},
		"taken by nobody":   {func(d object) { find(d, "attach_handles", "attach_type", "PCI")["in_use"] = true }, "no request names it"},
	}
}

func badRequests() map[string]badDump {
	const bound, initial = "Bound", "Initial"
	arq := func(state, field string, value any) func(object) {
		return func(d object) { find(d, "accelerator_requests", "state", state)[field] = value }
	}
	bind := func(state string, more object) func(object) {
		return func(d object) {
			a := find(d, "accelerator_requests", "state", state)
			request := object{"uuid": a["uuid"], "state": "BindStarted", "instance_uuid": instanceA, "device_profile_name": "v"}
			for name, value := range more {
				request[name] = value
			}
			d["binds"] = []any{object{"accelerator_requests": []any{request}}}
		}
	}
	return map[string]badDump{
		"state":             {arq(initial, "state", "Lost"), `state "Lost"`},
		"unknown":           {arq(initial, "state", "unknown"), `state "unknown"`},
		"profile":           {arq(initial, "device_profile", "v"), `no device profile "v"`},
		"group":             {arq(initial, "device_profile_group_id", 9), "has no group 9"},
		"negative group":    {arq(initial, "device_profile_group_id", -1), "has no group -1"},
		"idle, with a host": {arq(initial, "hostname", "cn1"), "Initial with hostname"},
		"bound to nothing":  {func(d object) { delete(find(d, "accelerator_requests", "state", bound), "attach_handle_uuid") }, "without an attach handle"},
		"no handle":         {arq(bound, "attach_handle_uuid", unknownID), "no attach handle"},
		"idle, with handle": {func(d object) {
			a := find(d, "accelerator_requests", "state", bound)
			find(d, "accelerator_requests", "state", initial)["attach_handle_uuid"] = a["attach_handle_uuid"]
		}, "Initial with attach handle"},
		"two of a handle": {func(d object) {
			a := find(d, "accelerator_requests", "state", bound)
			b := find(d, "accelerator_requests", "state", "BindFailed")
			b["attach_handle_uuid"], b["device_rp_uuid"] = a["attach_handle_uuid"], a["device_rp_uuid"]
		}, "is that of ARQ"},
		"handle not in use": {func(d object) {
			a := find(d, "accelerator_requests", "state", bound)
			delete(find(d, "attach_handles", "uuid", a["attach_handle_uuid"]), "in_use")
		}, "is not in use"},
		"other provider":     {arq(bound, "device_rp_uuid", unknownID), "is of provider"},
		"two images":         {arq(initial, "image", object{"function_id": "a", "bitstream_id": "b"}), "more than one"},
		"no such image":      {arq(initial, "image", object{"colour": "a"}), "colour"},
		"bind of nobody":     {bind(bound, object{"uuid": unknownID}), "no such request"},
		"bind that is over":  {bind(bound, nil), "it is Bound"},
		"bind state":         {bind(bound, object{"state": "Unbound"}), `state "Unbound"`},
		"over, with program": {bind(bound, object{"state": "Bound", "program": object{"function_id": "a"}}), "it is over"},
		"bind twice": {func(d object) {
			bind("BindStarted", nil)(d)
			run := d["binds"].([]any)[0].(object)
			run["accelerator_requests"] = append(run["accelerator_requests"].([]any), run["accelerator_requests"].([]any)[0])
		}, "bound twice"},
		"other instance": {bind("BindStarted", object{"instance_uuid": instanceB}), "it is of instance"},
		"odd program":    {bind("BindStarted", object{"program": object{"a": "b"}}), "program"},
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
		if err := w.server.SetARQState(held, fakecyborg.StateBindStarted); err != nil {
			t.Fatal(err)
		}
		w.arqs("v")
		before := dumped(t, w.server)
		refused := func(what string, data []byte, says string) {
			t.Helper()
			err := w.server.Load(data)
			if !errors.Is(err, fakecyborg.ErrDump) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: got error %v, want ErrDump and %q", what, err, says)
			}
			if diff := cmp.Diff(string(before), string(dumped(t, w.server))); diff != "" {
				t.Fatalf("%s: refused, yet changed (-want +got):\n%s", what, diff)
			}
		}
		for what, list := range map[string]map[string]badDump{"top": badTops(), "rows": badRows(), "requests": badRequests()} {
			for name, bad := range list {
				refused(what+", "+name, changed(t, before, bad.change), bad.says)
			}
		}
		refused("more", append(bytes.Clone(before), "{}"...), "something follows")
		refused("less", before[:len(before)/2], "unexpected EOF")
		refused("nothing", nil, "EOF")
		refused("a list", []byte("[]"), "array")
	})
}

func TestADumpIsOfOnePlacementMode(t *testing.T) {
	t.Parallel()
	for mode, bad := range map[string]string{
		fakecyborg.ModeFlat:   `{"compute_providers": [{"uuid": "` + unknownID + `", "inventories": {"X": {"total": -1}}}]}`,
		fakecyborg.ModeNested: `{"regions": [{"name": "a", "device": ""}]}`,
	} {
		s, err := fakecyborg.New(fakecyborg.Config{PlacementMode: mode})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		for text, says := range map[string]string{
			`{"schema_version": 1}`: "the server has", `{"schema_version": 1, "placement_mode": "tree"}`: "the server has",
			`{"schema_version": 1, "placement_mode": "` + mode + `", "placement": ` + bad + `}`:                                                      "placement.",
			`{"schema_version": 1, "placement_mode": "` + mode + `", "placement": {"compute_providers": [{"uuid": "x"}], "regions": [{"name":""}]}}`: "placement.",
		} {
			if err := s.Load([]byte(text)); !errors.Is(err, fakecyborg.ErrDump) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %s: got error %v, want %q", mode, text, err, says)
			}
		}
		if err := s.Load([]byte(`{"schema_version": 1, "placement_mode": "` + mode + `"}`)); err != nil {
			t.Error(err)
		}
	}
}

// A fallback is no host of its own.
func TestADumpKnowsHostsByTheirNames(t *testing.T) {
	t.Parallel()
	s, err := fakecyborg.New(fakecyborg.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if err := s.AddHost(fakecyborg.Host{Name: "cn0.example", Fallback: "cn0"}); err != nil {
		t.Fatal(err)
	}
	agent := func(fields string) error {
		return s.Load([]byte(`{"schema_version": 1, "agents": [{"started_at": "2020-01-01T00:00:00Z", ` + fields + `}]}`))
	}
	if err := agent(`"host": "cn0"`); !errors.Is(err, fakecyborg.ErrDump) || !strings.Contains(err.Error(), "fallback of host cn0.example") {
		t.Errorf("an agent of the fallback: %v", err)
	}
	if err := agent(`"host": "cn0.example", "fell_back": true`); err != nil {
		t.Fatal(err)
	}
	if tree := s.Tree(); !strings.HasPrefix(tree, "host cn0\n") {
		t.Errorf("the host is not known by its fallback: %s", tree)
	}
	if err := agent(`"host": "cn0.example"`); err != nil {
		t.Fatal(err)
	}
	if tree := s.Tree(); !strings.HasPrefix(tree, "host cn0.example\n") {
		t.Errorf("the host is not known by its name again: %s", tree)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"schema_version": 1}`))
	f.Add([]byte(`{"schema_version": 1, "agents": [{"host": "cn0", "down": true, "started_at": "2020-01-01T00:00:00Z", "returns_at": "2020-01-01T00:00:00Z"}], "events": [{}]}`))
	f.Add(smallDump(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			card := newHardware("test", vgpu("af", 2))
			w := newWorld(t, fakecyborg.Config{BindDelay: time.Second}, []driver.Driver{card}, withImages(t))
			before := dumped(t, w.server)
			if w.server.Load(data) != nil {
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
				checkAnswer(t, w.delete("/v2/accelerator_requests?arqs="+a.UUID))
			}
			_ = w.server.Tree()
			loaded(t, w.server, dumped(t, w.server))
		})
	})
}

// smallDump is a dump with a bind that goes on, and little else.
func smallDump(f *testing.F) []byte {
	f.Helper()
	s, err := fakecyborg.New(fakecyborg.Config{BindDelay: time.Hour})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	card := newHardware("test", vgpu("af", 2))
	if err := s.AddHost(fakecyborg.Host{Name: "cn0", Drivers: []driver.Driver{card}}); err != nil {
		f.Fatal(err)
	}
	if err := s.Report(f.Context()); err != nil {
		f.Fatal(err)
	}
	if _, err := s.CreateDeviceProfile("v", []map[string]string{{"resources:VGPU": "1"}}); err != nil {
		f.Fatal(err)
	}
	arqs, err := s.CreateARQs("v", "p")
	if err == nil {
		err = s.Bind(f.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: vgpuProvider(), Instance: instanceA})
	}
	if err != nil {
		f.Fatal(err)
	}
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
		s, err := fakecyborg.New(fakecyborg.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		slow := slowDriver{newHardware("test", vgpu("af", 2)), make(chan struct{})}
		if err := s.AddHost(fakecyborg.Host{Name: "cn0", Drivers: []driver.Driver{slow}}); err != nil {
			t.Fatal(err)
		}
		empty := dumped(t, s)
		var report, load sync.WaitGroup
		report.Go(func() { _ = s.Report(t.Context()) })
		synctest.Wait()
		load.Go(func() { loaded(t, s, empty) })
		synctest.Wait()
		close(slow.may)
		report.Wait()
		load.Wait()
		if got := s.Devices(); len(got) != 0 {
			t.Errorf("devices %v, want none, as in the dump", got)
		}
	})
}
