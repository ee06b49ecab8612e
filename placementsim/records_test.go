package placementsim_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// must ends a test whose set-up fails.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// filled is a service that has something of everything.
func filled(t *testing.T) *placementsim.Server {
	t.Helper()
	s := placementsim.Run(t, placementsim.Config{Seed: 7})
	root, err := s.CreateProvider(placementsim.ResourceProvider{Name: "cn0", Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 8}}, Traits: []string{"COMPUTE_ACCELERATORS"}})
	must(t, err)
	gpu, err := s.CreateProvider(placementsim.ResourceProvider{
		Name: "cn0_gpu", Parent: root.UUID, Inventories: map[string]placementsim.Inventory{"CUSTOM_PGPU": {Total: 2, Reserved: 1}},
		Traits: []string{"CUSTOM_A", "CUSTOM_B"}, Aggregates: []string{"1f4a4b6e-6b52-4d3c-8c8e-0d5a2f5f0a01"},
	})
	must(t, err)
	must(t, s.Claim(placementsim.Claim{
		Consumer: "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001", Project: "p", User: "u", Type: "INSTANCE",
		Allocations: []placementsim.Allocation{{Provider: root.UUID, Class: "VCPU", Used: 4}, {Provider: gpu.UUID, Class: "CUSTOM_PGPU", Used: 1}},
	}))
	return s
}

// recorded returns the records of a service.
func recorded(t *testing.T, s *placementsim.Server) (records []sim.Record) {
	t.Helper()
	for r, err := range s.Records() {
		must(t, err)
		records = append(records, r)
	}
	return records
}

func TestAServiceWithTheSameRecordsIsTheSame(t *testing.T) {
	t.Parallel()
	s := filled(t)
	records := recorded(t, s)
	other := placementsim.Run(t, placementsim.Config{Seed: 7})
	must(t, sim.Replace(t.Context(), other, records))
	if diff := cmp.Diff(records, recorded(t, other)); diff != "" {
		t.Errorf("records after Replace (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(s.ResourceProviders(), other.ResourceProviders()); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	want, err := s.CreateProvider(placementsim.ResourceProvider{Name: "next"})
	must(t, err)
	if got, err := other.CreateProvider(placementsim.ResourceProvider{Name: "next"}); err != nil || got.UUID != want.UUID {
		t.Errorf("the next provider is %s, %v, want %s as in the original", got.UUID, err, want.UUID)
	}
}

func TestBadRecordsChangeNothing(t *testing.T) {
	t.Parallel()
	s := filled(t)
	before := recorded(t, s)
	without := func(table string) []sim.Record {
		return slices.DeleteFunc(slices.Clone(before), func(r sim.Record) bool { return r.Table == table })
	}
	replaced := func(table, old, new string) []sim.Record {
		list := slices.Clone(before)
		for i, r := range list {
			if r.Table == table {
				list[i].Row = bytes.Replace(r.Row, []byte(old), []byte(new), 1)
			}
		}
		return list
	}
	for want, bad := range map[string][]sim.Record{
		"placement.sequences ids: it is missing":                 nil,
		"placement.sequences placement is missing":               slices.DeleteFunc(slices.Clone(before), func(r sim.Record) bool { return r.Key == "placement" }),
		"placement.weather k: there is no such table":            append(without(""), sim.Record{Table: "placement.weather", Key: "k"}),
		`placement.traits 0000000001: json: unknown field "nom"`: replaced("placement.traits", `"name"`, `"nom"`),
		"there is no such consumer":                              without("placement.consumers"),
		"there is no resource provider":                          without("placement.resource_providers"),
		"none of the traits":                                     without("placement.traits"),
		"no such consumer or inventory":                          without("placement.inventories"),
		"no resource class":                                      without("placement.resource_classes"),
	} {
		if err := sim.Replace(t.Context(), s, bad); !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ErrRecords with %q", err, want)
		}
		if diff := cmp.Diff(before, recorded(t, s)); diff != "" {
			t.Fatalf("%s: refused, yet changed (-before +after):\n%s", want, diff)
		}
	}
}

// Answers are written without escapes: what a request cannot name is in no state.
func TestRecordsHaveNoNameThatARequestCannotGive(t *testing.T) {
	t.Parallel()
	s := filled(t)
	before := recorded(t, s)
	gpu := s.ResourceProviders()[1]
	for _, name := range []string{gpu.UUID, gpu.Parent, gpu.Aggregates[0], s.Allocations()[0].Consumer, "CUSTOM_A", "CUSTOM_PGPU"} {
		bad := slices.Clone(before)
		for i, r := range bad {
			bad[i].Key = strings.ReplaceAll(r.Key, name, `x"y`)
			bad[i].Row = bytes.ReplaceAll(r.Row, []byte(name), []byte(`x\"y`))
		}
		if err := sim.Replace(t.Context(), s, bad); !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), `no request can give the uuid or name "x\"y"`) {
			t.Errorf("%s: got %v, want ErrRecords", name, err)
		}
	}
}

// A consumer that only the keys of POST /allocations and POST /reshaper can name is recorded, too.
func TestRecordsHaveEveryConsumerThatARequestCanGive(t *testing.T) {
	t.Parallel()
	s := filled(t)
	root := s.ResourceProviders()[0].UUID
	for i, consumer := range []string{"aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaa-", strings.Repeat("-", 36), strings.Repeat("A", 36), "2F7D3A52-6A0E-4D0B-9F0C-1F6A53C2B002"} {
		body := `{"` + consumer + `": {"allocations": {"` + root + `": {"resources": {"VCPU": 1}}}, "project_id": "p", "user_id": "u", "consumer_generation": null}}`
		path := "/allocations"
		if i%2 == 1 {
			path, body = "/reshaper", fmt.Sprintf(`{"inventories": {%q: {"resource_provider_generation": %d, "inventories": {"VCPU": {"total": 8}}}}, "allocations": %s}`,
				root, s.ResourceProviders()[0].Generation, body)
		}
		request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		for name, value := range map[string]string{"X-Auth-Token": "admin", "X-Roles": "admin,service", "OpenStack-API-Version": "placement 1.30", "Content-Type": "application/json"} {
			request.Header.Set(name, value)
		}
		answer := httptest.NewRecorder()
		if s.ServeHTTP(answer, request); answer.Code != http.StatusNoContent {
			t.Fatalf("POST %s of %s: %d %s", path, consumer, answer.Code, answer.Body)
		}
	}
	other := placementsim.Run(t, placementsim.Config{Seed: 7})
	records := recorded(t, s)
	must(t, sim.Replace(t.Context(), other, records))
	if diff := cmp.Diff(records, recorded(t, other)); diff != "" {
		t.Errorf("records after Replace (-want +got):\n%s", diff)
	}
}

func FuzzReplace(f *testing.F) {
	f.Add([]byte(`[]`))
	f.Add([]byte(`[{"table": "placement.sequences", "key": "ids", "row": {"name": "ids"}}, {"table": "placement.sequences", "key": "placement", "row": {"name": "placement", "resource_providers": 2, "trees": 1}},
		{"table": "placement.resource_providers", "key": "0000000001", "row": {"id": 1, "uuid": "00000000-0000-4000-8000-00000000000a", "name": "a", "tree": 1}}, {"table": "placement.resource_providers", "key": "0000000002", "row": {"id": 2, "uuid": "00000000-0000-4000-8000-00000000000b", "name": "b", "parent_provider_uuid": "00000000-0000-4000-8000-00000000000a"}},
		{"table": "placement.inventories", "key": "0000000001.000000", "row": {"resource_provider": "00000000-0000-4000-8000-00000000000a", "resource_class": "VCPU", "total": 4, "max_unit": 4, "allocation_ratio": 1e300}},
		{"table": "placement.consumers", "key": "00000000-0000-4000-8000-00000000000c", "row": {"uuid": "00000000-0000-4000-8000-00000000000c"}}, {"table": "placement.allocations", "key": "00000000-0000-4000-8000-00000000000c.0000000001.000000", "row": {"consumer": "00000000-0000-4000-8000-00000000000c", "resource_provider": "00000000-0000-4000-8000-00000000000a", "resource_class": "VCPU", "used": 3}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var records []sim.Record
		if json.Unmarshal(data, &records) != nil {
			return
		}
		s := placementsim.Run(t)
		if sim.Replace(t.Context(), s, records) != nil {
			return
		}
		once := recorded(t, s)
		if err := sim.Replace(t.Context(), s, once); err != nil {
			t.Fatalf("its own records: %v", err)
		}
		if diff := cmp.Diff(once, recorded(t, s)); diff != "" {
			t.Fatalf("records differ (-first +second):\n%s", diff)
		}
	})
}

// Allocations are listed in the order in which they were made, also by a service that was
// restored, as osc-placement shows them.
func TestAllocationsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	s := placementsim.Run(t, placementsim.Config{Seed: 7})
	var hosts []string
	for _, name := range []string{"cn0", "cn1"} {
		p, err := s.CreateProvider(placementsim.ResourceProvider{Name: name, Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 8}, "DISK_GB": {Total: 8}}})
		must(t, err)
		hosts = append(hosts, p.UUID)
	}
	const second, first = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001", "3f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	for _, consumer := range []string{first, second} {
		must(t, s.Claim(placementsim.Claim{Consumer: consumer, Project: "p", User: "u", Type: "INSTANCE", Allocations: []placementsim.Allocation{
			{Provider: hosts[1], Class: "DISK_GB", Used: 2}, {Provider: hosts[1], Class: "VCPU", Used: 1}, {Provider: hosts[0], Class: "VCPU", Used: 1},
		}}))
	}
	restored := placementsim.Run(t, placementsim.Config{Seed: 7})
	must(t, sim.Replace(t.Context(), restored, recorded(t, s)))
	without := recorded(t, s) // as older states are
	for i, r := range without {
		for _, position := range []string{`,"position":1`, `,"position":2`} {
			without[i].Row = bytes.Replace(r.Row, []byte(position), nil, 1)
			r.Row = without[i].Row
		}
	}
	if err := sim.Replace(t.Context(), restored, without); err != nil {
		t.Errorf("without positions: %v", err)
	}
	must(t, sim.Replace(t.Context(), restored, recorded(t, s)))
	for _, server := range []*placementsim.Server{s, restored} {
		var listed []string
		for _, a := range server.Allocations() {
			if a.Consumer == first {
				listed = append(listed, a.Provider+a.Class)
			}
		}
		if diff := cmp.Diff([]string{hosts[1] + "DISK_GB", hosts[1] + "VCPU", hosts[0] + "VCPU"}, listed); diff != "" {
			t.Errorf("allocations (-want +got):\n%s", diff)
		}
	}
}
