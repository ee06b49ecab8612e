package fakecyborg

import (
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/sim"
)

// CheckARQs fails the test unless the instance has exactly n accelerator requests, in any state. Like
// all Check methods it prints Tree with the failure.
func (s *Server) CheckARQs(t sim.TB, instance string, n int) {
	t.Helper()
	if have := s.arqsOfInstance(instance); len(have) != n {
		t.Errorf("instance %s has %d accelerator requests, want %d\n%s", instance, len(have), n, s.Tree())
	}
}

// CheckBound fails the test unless the instance has exactly n accelerator requests and each is Bound
// and holds an attach handle.
func (s *Server) CheckBound(t sim.TB, instance string, n int) {
	t.Helper()
	have := s.arqsOfInstance(instance)
	bound := 0
	for _, a := range have {
		if a.State == StateBound && a.AttachHandleUUID != "" {
			bound++
		}
	}
	if len(have) != n || bound != n {
		t.Errorf("instance %s has %d accelerator requests, %d of them Bound; want %d\n%s", instance, len(have), bound, n, s.Tree())
	}
}

// CheckState fails the test unless the request exists and is in the state.
func (s *Server) CheckState(t sim.TB, arq string, want State) {
	t.Helper()
	have, err := store.Find(s.db, func(tx store.Tx) (State, error) {
		a, err := tx.ARQ(arq, store.Everything())
		return s.arqView(tx)(a).State, err
	})
	switch {
	case err != nil:
		t.Errorf("ARQ %s does not exist, want it %s\n%s", arq, want, s.Tree())
	case have != want:
		t.Errorf("ARQ %s is %s, want %s\n%s", arq, have, want, s.Tree())
	}
}

// CheckHandlesInUse fails the test unless exactly n attach handles of the deployable with the provider
// are in use.
func (s *Server) CheckHandlesInUse(t sim.TB, provider string, n int) {
	t.Helper()
	used := 0
	for _, h := range s.AttachHandles() {
		if h.ProviderUUID == provider && h.InUse {
			used++
		}
	}
	if used != n {
		t.Errorf("provider %s has %d attach handles in use, want %d\n%s", provider, used, n, s.Tree())
	}
}

// CheckBitstream fails the test unless the deployable with the provider has the image, "" for none.
func (s *Server) CheckBitstream(t sim.TB, provider, image string) {
	t.Helper()
	for _, deployable := range s.Deployables() {
		if deployable.ProviderUUID == provider {
			if deployable.BitstreamID != image {
				t.Errorf("deployable %s has bitstream %q, want %q\n%s", deployable.Name, deployable.BitstreamID, image, s.Tree())
			}
			return
		}
	}
	t.Errorf("no deployable has provider %s\n%s", provider, s.Tree())
}

func (s *Server) arqsOfInstance(instance string) []ARQ {
	if instance == "" {
		return nil
	}
	return s.arqsOf(instance)
}

// Tree describes the state for a reader: hosts, their devices, deployables and the handles in use with
// their requests; then the requests without a handle. Its form is not stable.
func (s *Server) Tree() string {
	var b strings.Builder
	hosts := s.conductor.Hosts()
	s.db.View(func(tx store.Tx) {
		view := s.arqView(tx)
		for _, host := range hosts {
			health := ""
			if tx.AgentDown(host) {
				health = ", its agent is down"
			}
			fmt.Fprintf(&b, "host %s%s\n", host, health)
			for d := range tx.HostDevices(host) {
				fmt.Fprintf(&b, "  device %s %s %s, %s\n", d.Type, d.ControlPath.Key(), d.UUID, d.Status)
				for _, deployable := range tx.DeviceDeployables(d.UUID) {
					printDeployable(&b, tx, deployable, view)
				}
			}
		}
		loose := 0
		for a := range tx.ARQs("", store.Everything()) {
			if a.Handle != "" {
				continue
			}
			if loose++; loose == 1 {
				fmt.Fprintln(&b, "accelerator requests without an attach handle")
			}
			fmt.Fprintf(&b, "  %s\n", view(a).line())
		}
	})
	return b.String()
}

// printDeployable writes a deployable with its handles in use.
func printDeployable(b *strings.Builder, tx store.Tx, d store.Deployable, view func(store.ARQ) ARQ) {
	spec := tx.Reported(d)
	fmt.Fprintf(b, "    deployable %s, provider %s, %s:%d %v", d.Name, d.Provider, spec.Class, d.Total, spec.Traits)
	if d.Bitstream != "" {
		fmt.Fprintf(b, ", bitstream %s", d.Bitstream)
	}
	total, used := 0, []store.Handle{}
	for h := range tx.Handles(d.UUID) {
		if total++; h.InUse() {
			used = append(used, h)
		}
	}
	fmt.Fprintf(b, ", %d of %d handles free\n", total-len(used), total)
	for _, h := range used {
		a, err := tx.ARQ(h.HeldBy, store.Everything())
		if err != nil {
			fmt.Fprintf(b, "      %s handle %s waits for its mediated device to be removed\n", h.Type, h.UUID)
			continue
		}
		fmt.Fprintf(b, "      %s handle %s: %s\n", h.Type, h.UUID, view(a).line())
	}
}

// line is the request in one line.
func (a ARQ) line() string {
	text := fmt.Sprintf("ARQ %s %s, profile %s group %d", a.UUID, a.State, a.DeviceProfileName, a.DeviceProfileGroupID)
	if a.InstanceUUID != "" {
		text += ", instance " + a.InstanceUUID
	}
	if a.DeviceRPUUID != "" {
		text += fmt.Sprintf(", host %s, provider %s", a.Hostname, a.DeviceRPUUID)
	}
	if a.ProjectID != "" {
		text += ", project " + a.ProjectID
	}
	if a.Failure != "" {
		text += ": " + a.Failure
	}
	return text
}
