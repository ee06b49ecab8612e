package spawn_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/requestspec"
)

// portWithARQ is a port without an accelerator whose binding profile names an ARQ.
func portWithARQ(arq string) []spawn.Port {
	return []spawn.Port{{
		Port:           requestspec.Port{UUID: "ce531f90-199f-48c0-816c-13e38010b442", VNICType: "normal"},
		BindingProfile: map[string]any{"arq_uuid": arq},
	}}
}

func TestAStalePortDoesNotFreeTheARQOfAnotherInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		first := s.spawn(t, "gpu")
		req := request("gpu")
		req.Instance = secondInstance
		result, err := s.flow.Run(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		second := spawn.InstanceOf(req, result)
		second.Ports = portWithARQ(first.ARQs[0])
		for range 2 {
			err = s.ops.Delete(t.Context(), second)
			if err == nil || !strings.Contains(err.Error(), first.ARQs[0]) || !strings.Contains(err.Error(), first.UUID) {
				t.Errorf("error %v, want one that names the ARQ and its instance", err)
			}
			if got := s.arqs(t, first); len(got) != 1 {
				t.Errorf("the first instance, which runs, has %d ARQs", len(got))
			}
			if left := s.arqs(t, second); len(left) > 0 {
				t.Errorf("the second instance still has %v", left)
			}
		}
	})
}

func TestAPortWithAMalformedARQIsRefusedBeforeAnything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "gpu")
		i.Ports = portWithARQ("stale")
		if err := s.ops.Delete(t.Context(), i); !errors.Is(err, spawn.ErrRequest) || len(s.guests.calls) > 0 {
			t.Errorf("error %v after %v, want ErrRequest before anything", err, s.guests.calls)
		}
		s.running(t, i, true)
	})
}

func TestADeletedInstanceLeavesNoARQThatWasUnbound(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} { // another instance has got it since
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			i := s.spawn(t, "gpu")
			provider := s.arqs(t, i)[0].DeviceRPUUID
			if err := s.cyborg.UnbindARQs(t.Context(), i.ARQs); err != nil { // an operator
				t.Fatal(err)
			}
			if !again {
				if err := s.ops.Delete(t.Context(), i); err != nil {
					t.Error(err)
				}
				s.sound(t)
				return
			}
			err := s.cyborg.BindARQs(t.Context(), []cyborgclient.Binding{{
				ARQ: i.ARQs[0], Host: i.Host, DeviceRP: provider, Instance: secondInstance,
			}})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.ops.Delete(t.Context(), i); err == nil || !strings.Contains(err.Error(), secondInstance) {
				t.Errorf("error %v, want one that names the other instance", err)
			}
			if arqs := s.cloud.Cyborg.ARQs(); len(arqs) != 1 {
				t.Errorf("%d ARQs, want only the ARQ of the other instance", len(arqs))
			}
		})
	}
}

// Cyborg goes down after it listed the ARQs, and before the flow reads an ARQ that only the caller names. The listed
// ARQs are deleted or named.
func TestADeletionNamesWhatCyborgListedBeforeItWentDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, worldOpts{})
		i := s.spawn(t, "mixed")
		stale := "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2bfff"
		i.ARQs = append(slices.Clone(i.ARQs), stale)
		down := fault.Rule{Times: -1, Action: fault.Status, Status: http.StatusServiceUnavailable}
		get, list := down, down
		get.Operation, list.Operation, list.Nth = fault.ARQGet, fault.ARQList, 3
		s.fail(t, get, list)
		err := s.ops.Delete(t.Context(), i)
		settled(t, s.cloud.Faults().Set())
		named := leftARQs(err)
		for _, arq := range s.arqs(t, i) {
			if !slices.Contains(named, arq.UUID) {
				t.Errorf("error %v does not name ARQ %s, which is %s on host %s", err, arq.UUID, arq.State, arq.Hostname)
			}
		}
		if !slices.Contains(named, stale) {
			t.Errorf("error %v does not name ARQ %s, which could not be read", err, stale)
		}
	})
}
