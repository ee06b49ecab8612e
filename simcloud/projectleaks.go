package simcloud

import (
	"fmt"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/sim"
)

// boundEvent is the name of the event that tells Nova how a bind ended.
const boundEvent = "accelerator-request-bound"

// judgeProjects finds guests whose bound request is one project's while another one's quota pays
// for it.
func (w *view) judgeProjects(c *Cloud) {
	if c.external != nil {
		return // its consumers are not read
	}
	name := func(project string) string {
		if c.identity.HasProject(project) {
			return fmt.Sprintf("project %s", project)
		}
		return fmt.Sprintf("project %q, which Keystone does not know", project)
	}
	for _, a := range w.arqs {
		g, owned := w.owner(a)
		if !owned || a.State != fakecyborg.StateBound || !w.hasAllocation(g.UUID, a.DeviceRPUUID) {
			continue
		}
		if payer := c.Placement.ConsumerProject(g.UUID); payer != a.ProjectID {
			w.leak(LeakGuest, g.UUID, "guest %s has %s of %s, but its allocation on provider %s counts for %s",
				g.UUID, w.arqText(a), name(a.ProjectID), w.providerText(a.DeviceRPUUID), name(payer))
		}
	}
}

// judgeEvents compares what Nova was told last of a guest's bound request with what Cyborg
// has. That it was told nothing is no contradiction: an agent may look by itself.
func (w *view) judgeEvents(compute *nova.Server) {
	last := make(map[string]sim.ReceivedEvent)
	for _, e := range compute.Events() {
		if e.Name == boundEvent && e.Tag != nil {
			last[*e.Tag] = e
		}
	}
	for _, a := range w.arqs {
		e, told := last[a.UUID]
		g, owned := w.owner(a)
		if !told || !owned || a.State != fakecyborg.StateBound {
			continue
		}
		switch {
		case nova.CanonicalUUID(e.ServerUUID) != g.UUID:
			w.leak(LeakGuest, g.UUID, "guest %s has %s, but Nova was told last that it is bound for instance %s", g.UUID, w.arqText(a), e.ServerUUID)
		case e.Status != "completed":
			w.leak(LeakGuest, g.UUID, "guest %s has %s, but Nova was told last that its bind ended as %q", g.UUID, w.arqText(a), e.Status)
		}
	}
}
