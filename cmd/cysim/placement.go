package main

import (
	"fmt"

	"github.com/gocyborg/gocyborg/placementsim"
)

// placementCommand serves Placement alone.
type placementCommand struct {
	listenFlags
	authFlag
	Config placementsim.Config `embed:""`
}

// authFlag says how a service that stands alone knows its callers.
type authFlag struct {
	Auth string `enum:"none" default:"none" help:"Who may call: none believes what a request says of its sender (token USER or USER:PROJECT, X-Roles)."`
}

// Run implements the command.
func (c *placementCommand) Run(p *process) error {
	server, err := placementsim.New(c.Config)
	if err != nil {
		return badInput(err)
	}
	listener, err := c.open(p.ctx)
	if err != nil {
		return err
	}
	defer listener.Close()
	base := baseURL(listener)
	if err := printExports(p.stdout, variable{"CYSIM_PLACEMENT_URL", base}); err != nil {
		return err
	}
	p.log.Info(fmt.Sprintf("Placement listens on %s", base))
	return serveHTTP(p.ctx, listener, server, p.log)
}
