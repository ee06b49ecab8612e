package simcloud

import "github.com/gocyborg/gocyborg/sim"

// Requests returns the newest requests since the cloud was made, in the order in which
// they started, 20000 at most. A request that one of the services sends while it works on
// another follows that one.
func (c *Cloud) Requests() []sim.Exchange { return c.recorder.Exchanges() }

// ForgetRequests empties the record.
func (c *Cloud) ForgetRequests() { c.recorder.Reset() }
