package placementsim

import (
	"cmp"
	"net/http"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// work lists what fault rules act on within a request: the write of allocations, after their check. Status refuses it as
// MariaDB refuses the later of two overlapping writes. Delay lets time pass before it, and the check is not repeated:
// claims that overlap so may together exceed an inventory, as in the service on a database with repeatable reads
// and without snapshot isolation. There a claim that meets another generation of the provider reads the generation again, and
// the usage from the snapshot of its transaction (placement/objects/allocation.py, replace_all).
func work() []fault.Operation {
	return []fault.Operation{{
		Name: fault.AllocationsWrite, Subject: "the uuid of the consumer, none for POST /allocations", Actions: []fault.Action{fault.Status, fault.Delay},
	}}
}

// claim makes claims in one step, unless a rule acts on their write.
func (c *call) claim(subject string, claims []engine.Claim) error {
	rule, hit := c.server.service.Faults.Decide(fault.AllocationsWrite, subject)
	w := c.writes()
	check := c.state().Fits
	if !hit || rule.Applied() {
		check = c.state().Claim
	}
	if err := check(claims, w); err != nil || !hit {
		return err
	}
	if err := c.applyFault(rule); err != nil || rule.Applied() {
		return err
	}
	w.Capacity, w.Now = engine.CapacityChecked, c.server.now()
	return c.state().Claim(claims, w)
}

// applyFault waits, also when the client does not, or returns the error of the database.
func (c *call) applyFault(rule fault.Rule) error {
	if rule.Action == fault.Delay {
		return c.server.service.Wait(c.Context(), rule.Delay)
	}
	return &simhttp.Error{
		Status: cmp.Or(rule.Status, http.StatusInternalServerError),
		Text:   `(pymysql.err.OperationalError) (1020, "Record has changed since last read in table 'resource_providers'")`,
	}
}
