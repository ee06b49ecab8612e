package engine_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// hostsWith makes a host for each number, with so many devices.
func hostsWith(t *testing.T, devices ...int) *engine.State {
	t.Helper()
	s := engine.New(testTraits(), collation.Exact, epoch())
	one := map[string]engine.Inventory{"FPGA": {Total: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1, AllocationRatio: 1}}
	for host, n := range devices {
		root := fmt.Sprintf("host%04d", host)
		must(t, second(s.CreateProvider(engine.NewProvider{UUID: root, Name: root}, epoch())))
		for d := range n {
			name := fmt.Sprintf("%s_%02d", root, d)
			must(t, second(s.CreateProvider(engine.NewProvider{UUID: name, Name: name, Parent: root}, epoch())))
			must(t, second(s.SetInventories(name, nil, one, engine.InventoryWrite{})))
		}
	}
	return s
}

// oneDevice asks for candidates with one device.
func oneDevice(limit int, seed uint64) engine.CandidateQuery {
	return engine.CandidateQuery{Groups: []engine.Group{{Suffix: "_d", Resources: []engine.ClassAmount{{Class: "FPGA", Amount: 1}}}}, Limit: limit, Seed: seed}
}

// devicesOf returns the devices of the candidates.
func devicesOf(t *testing.T, s *engine.State, q engine.CandidateQuery) (devices []string) {
	t.Helper()
	answer, err := s.Answer(q)
	must(t, err)
	for _, r := range answer.Requests {
		devices = append(devices, r.Amounts[0].Provider)
	}
	if !slices.IsSorted(devices) || len(slices.Compact(slices.Clone(devices))) < len(devices) {
		t.Errorf("limit %d, seed %d: got devices in the order %q, want each once, in the order of creation", q.Limit, q.Seed, devices)
	}
	return devices
}

// hostsOf counts the hosts of devices.
func hostsOf(devices []string) int {
	hosts := make(map[string]bool)
	for _, d := range devices {
		hosts[d[:len("host0000")]] = true
	}
	return len(hosts)
}

// A random choice of 1,000 of 4,000 candidates is of 1,000 * (1 - (3/4)^4) = 684 hosts with four devices each, one of 1,000 of 8,000 is of
// 1,000 * (1 - (7/8)^8) = 656 hosts with eight.
func TestLimitChoosesCandidatesOfAsManyHostsAsARandomChoice(t *testing.T) {
	t.Parallel()
	tests := []struct {
		hosts, devices, limit int
		want, tolerance       int
	}{
		{hosts: 1000, devices: 4, limit: 10, want: 10, tolerance: 1},
		{hosts: 1000, devices: 4, limit: 1000, want: 684, tolerance: 30},
		{hosts: 1000, devices: 8, limit: 1000, want: 656, tolerance: 30},
		{hosts: 1000, devices: 1, limit: 1000, want: 1000},
		{hosts: 100, devices: 4, limit: 399, want: 100},
		{hosts: 3, devices: 40, limit: 40, want: 3},
		{hosts: 1, devices: 40, limit: 39, want: 1},
		{hosts: 3, devices: 2, limit: 1, want: 1},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("hosts=%d/devices=%d/limit=%d", tt.hosts, tt.devices, tt.limit), func(t *testing.T) {
			t.Parallel()
			s := hostsWith(t, slices.Repeat([]int{tt.devices}, tt.hosts)...)
			first := devicesOf(t, s, oneDevice(tt.limit, 1))
			for seed := range uint64(3) {
				devices := devicesOf(t, s, oneDevice(tt.limit, seed))
				if len(devices) != min(tt.limit, tt.hosts*tt.devices) {
					t.Errorf("seed %d: got %d candidates", seed, len(devices))
				}
				if hosts := hostsOf(devices); math.Abs(float64(hosts-tt.want)) > float64(tt.tolerance) {
					t.Errorf("seed %d: got candidates of %d hosts, want %d, with a tolerance of %d", seed, hosts, tt.want, tt.tolerance)
				}
				if same := slices.Equal(devices, first); same != (seed == 1 || tt.limit >= tt.hosts*tt.devices) && tt.hosts > 99 {
					t.Errorf("seed %d: the same candidates as with seed 1: %v", seed, same)
				}
			}
		})
	}
}

// Candidates with two devices come in pairs that take the same: 500 pairs are of 1,000 * (1 - (999/1000)^500) = 394 hosts, nearly.
func TestLimitChoosesCandidatesThatTakeTheSameTogether(t *testing.T) {
	t.Parallel()
	s := hostsWith(t, slices.Repeat([]int{8}, 1000)...)
	for _, tt := range []struct{ devices, limit, hosts, tolerance, sets int }{
		{devices: 2, limit: 10, hosts: 5, tolerance: 1, sets: 5},
		{devices: 2, limit: 11, hosts: 6, tolerance: 1, sets: 6},
		{devices: 2, limit: 1000, hosts: 394, tolerance: 30, sets: 500},
		{devices: 3, limit: 12, hosts: 2, tolerance: 1, sets: 2},
	} {
		q := engine.CandidateQuery{Isolate: true, Limit: tt.limit, Seed: 1}
		for i := range tt.devices {
			q.Groups = append(q.Groups, engine.Group{Suffix: fmt.Sprint("_d", i), Resources: []engine.ClassAmount{{Class: "FPGA", Amount: 1}}})
		}
		answer, err := s.Answer(q)
		must(t, err)
		var devices []string
		sets, orders := make(map[string]bool), make(map[string]bool)
		for _, r := range answer.Requests {
			var chosen []string
			for _, m := range r.Mappings {
				chosen = append(chosen, m.Providers...)
			}
			devices = append(devices, chosen[0])
			orders[fmt.Sprint(chosen)] = true
			slices.Sort(chosen)
			sets[fmt.Sprint(chosen)] = true
		}
		if len(orders) != tt.limit || len(sets) != tt.sets {
			t.Errorf("%d devices, limit %d: got %d candidates that take %d sets of devices, want %d", tt.devices, tt.limit, len(orders), len(sets), tt.sets)
		}
		if hosts := hostsOf(devices); math.Abs(float64(hosts-tt.hosts)) > float64(tt.tolerance) {
			t.Errorf("%d devices, limit %d: got candidates of %d hosts, want %d, with a tolerance of %d", tt.devices, tt.limit, hosts, tt.hosts, tt.tolerance)
		}
	}
}

func TestEachCandidateIsChosenEquallyOften(t *testing.T) {
	t.Parallel()
	const limit, seeds = 6, 3000
	var hosts []int
	all := 0
	for i := range 24 {
		hosts = append(hosts, 1<<(i%4))
		all += hosts[i]
	}
	s := hostsWith(t, hosts...)
	chosen := make(map[string]int) // by device
	for seed := range uint64(seeds) {
		for _, device := range devicesOf(t, s, oneDevice(limit, seed)) {
			chosen[device]++
		}
	}
	want := float64(limit*seeds) / float64(all)
	perHost := make([]float64, 4) // of hosts with 1, 2, 4 and 8 devices
	for device, n := range chosen {
		var host int
		_, err := fmt.Sscanf(device, "host%04d", &host)
		must(t, err)
		perHost[host%4] += float64(n) / 6 / float64(hosts[host])
		if math.Abs(float64(n)-want) > 0.35*want {
			t.Errorf("device %s was chosen %d times, want about %.0f", device, n, want)
		}
	}
	t.Logf("chosen on average: %.0f, on hosts with 1, 2, 4 and 8 devices %.0f", want, perHost)
	if len(chosen) != all {
		t.Errorf("%d of %d devices were ever chosen", len(chosen), all)
	}
}
