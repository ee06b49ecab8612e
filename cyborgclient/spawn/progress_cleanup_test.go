package spawn_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
)

// The cleanup and the rollback of an operation may take as long as an unwinding when requests fail, and report their
// progress.
func TestAnObserverSeesTheCleanupOfOperations(t *testing.T) {
	t.Parallel()
	putFails := fault.Rule{Operation: fault.AllocationsPut, Action: fault.Status, Status: 500, Times: -1}
	anInstance := func(t *testing.T, s *site) spawn.Instance { return s.spawn(t, "gpu") }
	for name, tt := range map[string]struct {
		spawn   func(t *testing.T, s *site) spawn.Instance
		disturb func(t *testing.T, s *site, i spawn.Instance)
		run     func(ctx context.Context, s *site, i spawn.Instance) error
		want    []string // lines of the unwinding, with INSTANCE, without retries
		retries int      // at least
	}{
		"a delete whose guest does not die": {
			spawn:   anInstance,
			disturb: func(_ *testing.T, s *site, _ spawn.Instance) { s.guests.fail["destroy"] = 3 },
			run:     func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.Delete(ctx, i) },
			want: []string{
				"begin", "undone guest INSTANCE", "undone arq ARQ", "undone allocation INSTANCE", "end 3 undone, 0 not cleaned up",
			},
			retries: 3,
		},
		"a guest that does not start": {
			spawn: anInstance,
			disturb: func(_ *testing.T, s *site, _ spawn.Instance) {
				s.guests.fail["start"] = 1
				s.guests.hook = func(int) {
					if slices.Contains(s.guests.calls, "start") && s.guests.fail["start"] == 0 { // the call after it
						s.guests.hook, s.guests.fail["destroy"] = nil, 2
					}
				}
			},
			run:     func(ctx context.Context, s *site, i spawn.Instance) error { return s.ops.HardReboot(ctx, i, nil) },
			want:    []string{"begin", "undone change of guest INSTANCE", "end the guest is restored"},
			retries: 2,
		},
		"an evacuation": {
			spawn: anInstance,
			disturb: func(t *testing.T, s *site, i spawn.Instance) {
				s.loseHost(t, i.Host)
				s.guests.onCall("start", func() { s.fail(t, putFails) })
			},
			run: func(ctx context.Context, s *site, i spawn.Instance) error {
				_, err := s.ops.Evacuate(ctx, i, spawn.MoveOpts{})
				return err
			},
			want:    []string{"undone arq ARQ", "begin", "left allocation INSTANCE", "end 0 undone, 1 not cleaned up"},
			retries: 3,
		},
		"devices": {
			spawn:   anInstance,
			disturb: func(t *testing.T, s *site, _ spawn.Instance) { s.fail(t, putFails) },
			run:     func(ctx context.Context, s *site, i spawn.Instance) error { return s.flow.ReleaseDevices(ctx, i.UUID) },
			want:    []string{"begin", "undone arq ARQ", "left allocation INSTANCE", "end 1 undone, 1 not cleaned up"},
			retries: 3,
		},
		"devices, without an answer": {
			spawn: anInstance,
			disturb: func(t *testing.T, s *site, _ spawn.Instance) {
				s.fail(t, fault.Rule{Operation: fault.AllocationsPut, Action: fault.Drop, When: fault.After})
			},
			run:  func(ctx context.Context, s *site, i spawn.Instance) error { return s.flow.ReleaseDevices(ctx, i.UUID) },
			want: []string{"begin", "undone arq ARQ", "undone part of allocation INSTANCE", "end 2 undone, 0 not cleaned up"},
		},
		"devices that are released": {
			spawn: func(t *testing.T, s *site) spawn.Instance {
				i := s.spawn(t, "gpu")
				settled(t, s.flow.ReleaseDevices(t.Context(), i.UUID))
				return i
			},
			run:  func(ctx context.Context, s *site, i spawn.Instance) error { return s.flow.ReleaseDevices(ctx, i.UUID) },
			want: []string{"begin", "end 0 undone, 0 not cleaned up"},
		},
		"a change of the owner": {
			spawn: novaVGPU,
			run: func(ctx context.Context, s *site, i spawn.Instance) error {
				c := change(i)
				c.Release = func(context.Context, string) error { return errHypervisor }
				_, err := s.ops.TakeOver(ctx, c)
				return err
			},
			want:    []string{"begin", "undone part of allocation INSTANCE", "left mdev " + novasMdev, "end 1 undone, 1 not cleaned up"},
			retries: 3,
		},
	} {
		bubble(t, name, func(t *testing.T) {
			s := newSite(t, worldOpts{model: novaVGPUModel()})
			i := tt.spawn(t, s)
			p := s.observed(t)
			s.renew(t)
			if tt.disturb != nil {
				tt.disturb(t, s, i)
			}
			_ = tt.run(t.Context(), s, i)
			var lines []string
			retries := 0
			for n, line := range p.lines {
				line, unwinding := strings.CutPrefix(line, "unwind ")
				switch {
				case strings.HasPrefix(line, "retry"):
					retries++
				case unwinding && !strings.HasPrefix(line, "stage"):
					line, _, _ = strings.Cut(line, " (") // the details of a leftover
					lines = append(lines, undoneARQ.ReplaceAllString(strings.ReplaceAll(line, i.UUID, "INSTANCE"), "undone arq ARQ"))
				}
				if n > 0 && p.at[n].Sub(p.at[n-1]) > 10*time.Second {
					t.Errorf("silent for %s before %q", p.at[n].Sub(p.at[n-1]), line)
				}
			}
			if diff := cmp.Diff(tt.want, lines); diff != "" || retries < tt.retries {
				t.Errorf("%d retries; (-want +got):\n%s", retries, diff)
			}
		})
	}
}

var undoneARQ = regexp.MustCompile(`undone arq [0-9a-f-]{36}`)
