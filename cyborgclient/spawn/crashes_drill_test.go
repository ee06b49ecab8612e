//go:build drill

package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// process makes the site's calls on behalf of a new process, which dies at one of them.
func (s *site) process(t *testing.T, line *mortalLine) {
	t.Helper()
	line.next, s.guests.line = s.cloud.Transport(), line
	admin, nova := s.cloud.Provider(t), s.cloud.ServiceProvider(t)
	admin.HTTPClient.Transport, nova.HTTPClient.Transport = line, line
	s.connect(t, admin, spawn.WithServiceProvider(nova))
	s.renew(t)
}

// reconciled lets the agents of the hosts that are up reconcile, each its own host.
func (s *site) reconciled(t *testing.T) {
	t.Helper()
	time.Sleep(time.Hour)
	for _, host := range s.cloud.HostNames() {
		if s.guests.down[host] {
			continue
		}
		_, err := s.flow.Reconcile(t.Context(), spawn.ReconcileOpts{Hosts: []string{host}, Free: true, Living: func(_ context.Context, uuid string) (bool, error) {
			_, there := s.guests.saved[place{uuid, host}]
			return there, nil
		}})
		settled(t, err)
	}
}

// TestDrillOperationsAreRepeatedAfterACrash kills the process of each operation before or after each of its calls to
// the services and to the hypervisor. The hosts are reconciled, the next process repeats the operation, and nothing
// leaks.
func TestDrillOperationsAreRepeatedAfterACrash(t *testing.T) {
	t.Parallel()
	for n, r := range rows() {
		for k, c := range cells() {
			if c.dead || (n+k)%8 > 0 || r.name == "spawn" { // which Nova does not repeat
				continue
			}
			t.Run(r.name+"/"+c.String(), func(t *testing.T) {
				t.Parallel()
				for _, before := range []bool{true, false} {
					for calls, died := 1, true; died && !t.Failed(); calls++ {
						t.Run(fmt.Sprintf("%d calls, before: %t", calls, before), func(t *testing.T) {
							synctest.Test(t, func(t *testing.T) { died = r.isRepeatedAfterACrash(t, c, calls, before) })
						})
					}
				}
			})
		}
	}
}

// isRepeatedAfterACrash reports whether the process died.
func (r row) isRepeatedAfterACrash(t *testing.T, c cell, calls int, before bool) bool {
	s := newSite(t, worldOpts{model: c.model()})
	s.profile = c.profile
	i := s.spawn(t, c.profile)
	host := i.Host
	if r.before != nil {
		settled(t, r.before(t.Context(), s, &i))
	}
	s.guests.down[host] = r.lost
	if r.reboot {
		s.powerCut(t, host)
		settled(t, s.cloud.StartHost(t.Context(), host))
	}
	line := new(mortalLine)
	line.left.Store(int64(calls))
	line.before.Store(before)
	s.process(t, line)
	first := r.run(t.Context(), s, &i)
	if !line.dead.Load() {
		return false // what it does is tried by TestDrillOperationsKeepThePromise
	}
	s.process(t, new(mortalLine))
	s.reconciled(t)
	s.createMdevs(t) // a released Cyborg creates none again
	again := r.run(t.Context(), s, &i)
	if moved := (*spawn.MovedError)(nil); errors.As(again, &moved) {
		i.Host = moved.Host
		i.ARQs = nil // the new ones
		again = s.ops.HardReboot(t.Context(), i, nil)
	}
	if again == nil && r.name == "rebuild" {
		again = s.startedAfterRebuild(t, i)
	}
	if again != nil {
		t.Fatalf("%v\nbefore the crash: %v", again, first)
	}
	if wrong := r.done(s, i); wrong != nil {
		t.Error(wrong)
	}
	if r.lost {
		settled(t, s.cloud.StartHost(t.Context(), host))
		delete(s.guests.saved, place{i.UUID, host})
		delete(s.guests.runs, place{i.UUID, host})
		s.guests.down[host] = false
		s.reconciled(t) // frees what the last step had not released yet
	}
	s.sound(t)
	return true
}

// startedAfterRebuild starts a guest that was off when the rebuild was repeated, and therefore still is.
func (s *site) startedAfterRebuild(t *testing.T, i spawn.Instance) error {
	if stopped(s, i) != nil {
		return nil
	}
	return s.ops.Start(t.Context(), i)
}
