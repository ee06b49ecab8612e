package keystone

import (
	"github.com/gocyborg/gocyborg/sim"
)

// change notes a token by its audit id: the token itself is a secret.
func (t *token) change(action string) sim.Change {
	what := "of user " + t.user.name
	switch {
	case t.project != nil:
		what += " on project " + t.project.name
	case t.system:
		what += " on the system"
	}
	return sim.Change{Action: action, Kind: "token", ID: t.auditIDs[0], What: what}
}

// change notes an application credential. Its end is that of the tokens it gave.
func (c *credential) change(action string) sim.Change {
	return sim.Change{Action: action, Kind: "application_credential", ID: c.id, What: c.name + " of user " + c.user.name + " on project " + c.project.name}
}
