package spawn_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/sim"
)

// lateUnshelve has a bind that takes six seconds for an instance without a host. Nova refuses its event with 422, and
// Cyborg does not send it again. Nova's own compute process waits for it until its timeout.
func lateUnshelve(t *testing.T, config spawn.Config) string {
	model := slowModel(6 * time.Second)
	model.StrictInstances = true
	s := newSite(t, worldOpts{model: model, config: config})
	homeless := func() {
		settled(t, s.cloud.DefineGuest(sim.Guest{UUID: instance}))
	}
	homeless()
	i := s.spawn(t, "gpu")
	settled(t, s.ops.ShelveOffload(t.Context(), i))
	i.Host, i.ARQs = "", nil
	homeless()
	began := time.Now()
	result, err := s.ops.Unshelve(t.Context(), i, spawn.MoveOpts{})
	if err != nil {
		return err.Error()
	}
	took := time.Since(began).Truncate(time.Second)
	i.Host = result.Host
	s.running(t, i, true)
	s.sound(t)
	events, refused := s.cloud.ReceivedEvents(), 0
	for _, e := range events {
		if e.Code == http.StatusUnprocessableEntity && len(e.Problems) == 1 && strings.Contains(e.Problems[0], "no host") && len(e.Forwarded) == 0 {
			refused++
		}
	}
	return fmt.Sprintf("after %s: %d of %d events refused for want of a host", took, refused, len(events))
}
