package main

import (
	"context"
	"net/http"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/daemon"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim"
)

// placementCommand serves Placement alone.
type placementCommand struct {
	listenFlags `group:"server"`
	authFlag    `group:"server"`
	faultsFlag  `group:"faults"`
	Config      placementsim.Config `embed:"" group:"placement-flags"`
}

// authFlag says how a service without Keystone identifies its callers.
type authFlag struct {
	Auth string `enum:"none" default:"none" help:"Authentication: none trusts the identity in each request (token USER or USER:PROJECT, X-Roles)."`
}

// trusting is the warning about a service without authentication.
const trusting = "--auth none believes what a request says about its sender"

// Run implements the command.
func (c *placementCommand) Run(ctx context.Context, p *command.Process, line *kong.Context) error {
	if c.Daemon {
		return daemon.Start(ctx, p, line.Args, c.Log)
	}
	faults, err := c.newSet(ctx, c.Config.Seed, placementsim.Operations())
	if err != nil {
		return err
	}
	server, err := placementsim.New(c.Config, placementsim.WithFaults(faults))
	if err != nil {
		return command.BadInput(err)
	}
	identity, err := c.identity("")
	if err != nil {
		return err
	}
	return c.run(ctx, p, service{
		name: "Placement", line: line, facts: func(string) []string { return nil }, exposes: trusting, identity: identity, handler: withControl(server, simhttp.Control{
			Faults: faults, Routes: server.Routes(), More: []simhttp.ControlRoute{{Pattern: "GET /_sim/explain", Query: []string{"*"}, Answer: "explanation", Help: "Explains for each host why it is not a candidate. Takes the query of GET /allocation_candidates.", Handler: server.ServeExplain}},
		}),
		prepare: func(_ context.Context, base string) (environment, error) {
			return environment{set: []variable{{"CYSIM_PLACEMENT_URL", base}}}, nil
		},
	})
}

// maxRequests limits the record of a service that is served alone.
const maxRequests = 1000

// withControl serves /_sim/ in addition to a service, as a whole cloud does.
func withControl(server http.Handler, control simhttp.Control) http.Handler {
	recorder := simhttp.NewRecorder(maxRequests)
	control.Recorder = recorder
	own := control.Handler()
	return simhttp.Recording(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/_sim/") {
			own.ServeHTTP(w, r)
			return
		}
		server.ServeHTTP(w, r)
	}), recorder)
}
