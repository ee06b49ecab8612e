package placementsim_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/placementsim"
)

// filled is a service that has something of everything.
func filled(t *testing.T) *placementsim.Server {
	t.Helper()
	s, err := placementsim.New(placementsim.Config{Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	root, err := s.CreateProvider(placementsim.NewProvider{Name: "cn0", Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 8}}, Traits: []string{"COMPUTE_ACCELERATORS"}})
	if err != nil {
		t.Fatal(err)
	}
	gpu, err := s.CreateProvider(placementsim.NewProvider{
		Name: "cn0_gpu", Parent: root.UUID, Inventories: map[string]placementsim.Inventory{"CUSTOM_PGPU": {Total: 2, Reserved: 1}},
		Traits: []string{"CUSTOM_A", "CUSTOM_B"}, Aggregates: []string{"1f4a4b6e-6b52-4d3c-8c8e-0d5a2f5f0a01"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Claim(placementsim.Claim{
		Consumer: "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001", Project: "p", User: "u", Type: "INSTANCE",
		Allocations: []placementsim.Allocation{{Provider: root.UUID, Class: "VCPU", Used: 4}, {Provider: gpu.UUID, Class: "CUSTOM_PGPU", Used: 1}},
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

func dumped(t *testing.T, s *placementsim.Server) []byte {
	t.Helper()
	data, err := s.Dump()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestADumpIsLoaded(t *testing.T) {
	t.Parallel()
	s := filled(t)
	data := dumped(t, s)
	if !bytes.Equal(data, dumped(t, s)) {
		t.Error("two dumps of one state differ")
	}
	other, err := placementsim.New(placementsim.Config{Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Load(data); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(data), string(dumped(t, other))); diff != "" {
		t.Errorf("the dump of what was loaded (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(s.ResourceProviders(), other.ResourceProviders()); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	want, err := s.CreateProvider(placementsim.NewProvider{Name: "next"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := other.CreateProvider(placementsim.NewProvider{Name: "next"}); err != nil || got.UUID != want.UUID {
		t.Errorf("the next provider is %s, %v, want %s as without the dump", got.UUID, err, want.UUID)
	}
}

func TestABadDumpChangesNothing(t *testing.T) {
	t.Parallel()
	s := filled(t)
	before := dumped(t, s)
	for what, text := range map[string]string{
		"something follows": string(before) + "{}",
		"unknown field":     strings.Replace(string(before), `"roots"`, `"leaves"`, 1),
		"schema_version 2":  strings.Replace(string(before), `"schema_version": 1`, `"schema_version": 2`, 1),
		"unexpected EOF":    string(before[:len(before)/2]),
		"0 roots":           `{"schema_version": 1, "resource_providers": [{"uuid": "a", "name": "a"}]}`,
	} {
		if err := s.Load([]byte(text)); !errors.Is(err, placementsim.ErrDump) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
		if !bytes.Equal(before, dumped(t, s)) {
			t.Fatalf("%s: refused, yet changed", what)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"schema_version": 1}`))
	f.Add([]byte(`{"schema_version": 1, "roots": ["a"], "resource_providers": [{"uuid": "a", "name": "a", "inventories": [{"resource_class": "VCPU", "total": 4, "max_unit": 4, "allocation_ratio": 1e300}]}], "consumers": [{"uuid": "c", "allocations": [{"resource_provider": "a", "resource_class": "VCPU", "amount": 3}]}]}`))
	f.Add([]byte(`{"schema_version": 1, "roots": ["a"], "resource_providers": [{"uuid": "a", "name": "a"}, {"uuid": "b", "name": "b", "parent": "a"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := placementsim.New(placementsim.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if s.Load(data) != nil {
			return
		}
		once, err := s.Dump()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Load(once); err != nil {
			t.Fatal(fmt.Errorf("its own dump: %w", err))
		}
		if twice, err := s.Dump(); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%v, dumps differ:\n%s\n%s", err, once, twice)
		}
	})
}
