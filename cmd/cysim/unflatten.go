package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/terminal"
)

// unflattenCommand upgrades flat hosts to a tree of providers.
type unflattenCommand struct {
	PlacementURL   command.URL `name:"placement-url" required:"" placeholder:"URL" help:"Root of the Placement, such as http://HOST/placement."`
	PlacementToken string      `placeholder:"TOKEN" default:"admin" help:"X-Auth-Token for Placement (${default})."`
	DryRun         bool        `help:"Only print what would be removed."`
	Class          []string    `placeholder:"NAME" help:"A further resource class of Cyborg, in addition to the classes that its drivers report, such as VGPU; NAME* matches every class with that prefix."`
	Trait          []string    `placeholder:"NAME" help:"Trait of Cyborg; NAME* matches every trait with that prefix. Default: the traits that its drivers report."`
}

// Run implements the command.
func (c *unflattenCommand) Run(ctx context.Context, p *command.Process) error {
	placement, err := newEndpoint(c.PlacementURL, c.PlacementToken)
	if err != nil {
		return command.BadInput(err)
	}
	found, err := fakecyborg.Unflatten(ctx, placement, fakecyborg.UnflattenOpts{DryRun: c.DryRun, Classes: c.Class, Traits: c.Trait})
	if errors.Is(err, fakecyborg.ErrAllocated) {
		return err // nothing was removed
	}
	verb := "removed from"
	if c.DryRun {
		verb = "would be removed from"
	}
	for _, f := range found {
		if _, err := fmt.Fprintf(p.Stdout, "%s %s (%s): %s\n", verb, terminal.Line(f.Name), terminal.Line(f.Provider),
			terminal.Line(strings.Join(append(f.Classes, f.Traits...), " "))); err != nil {
			return err
		}
	}
	if len(found) == 0 && err == nil {
		_, err = fmt.Fprintln(p.Stdout, "nothing to remove: no compute provider has a class or trait of Cyborg")
	}
	return err
}
