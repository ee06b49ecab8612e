package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
)

// unflattenCommand is the upgrade from flat hosts to a tree of providers.
type unflattenCommand struct {
	PlacementURL   string   `name:"placement-url" required:"" placeholder:"URL" help:"Root of the Placement, such as http://HOST/placement."`
	PlacementToken string   `placeholder:"TOKEN" default:"admin" help:"X-Auth-Token for Placement (${default})."`
	DryRun         bool     `help:"Only tell what would be removed."`
	Class          []string `placeholder:"NAME" help:"Resource class of Cyborg's; NAME* stands for all that begin so. Default: those that its drivers report, but VGPU."`
	Trait          []string `placeholder:"NAME" help:"Trait of Cyborg's; NAME* stands for all that begin so. Default: those that its drivers report."`
}

// Run implements the command.
func (c *unflattenCommand) Run(p *process) error {
	if err := checkURL("placement-url", c.PlacementURL); err != nil {
		return err
	}
	found, err := fakecyborg.Unflatten(p.ctx,
		sim.Endpoint{URL: c.PlacementURL, Token: fixed(c.PlacementToken)},
		fakecyborg.UnflattenOpts{DryRun: c.DryRun, Classes: c.Class, Traits: c.Trait})
	if errors.Is(err, fakecyborg.ErrAllocated) {
		return err // nothing was removed
	}
	verb := "removed from"
	if c.DryRun {
		verb = "would be removed from"
	}
	for _, f := range found {
		if _, err := fmt.Fprintf(p.stdout, "%s %s (%s): %s\n", verb, f.Name, f.Provider,
			strings.Join(append(f.Classes, f.Traits...), " ")); err != nil {
			return err
		}
	}
	if len(found) == 0 && err == nil {
		_, err = fmt.Fprintln(p.stdout, "nothing to remove: no compute provider has anything of Cyborg's")
	}
	return err
}
