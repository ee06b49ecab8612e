package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim"
)

// placementCommand serves Placement alone.
type placementCommand struct {
	listenFlags
	authFlag
	faultsFlag
	Config placementsim.Config `embed:""`
}

// authFlag says how a service that stands alone knows its callers.
type authFlag struct {
	Auth string `enum:"none" default:"none" help:"Who may call: none believes what a request says of its sender (token USER or USER:PROJECT, X-Roles)."`
}

// Run implements the command.
func (c *placementCommand) Run(p *process) error {
	faults := fault.NewSet(placementsim.Operations()...)
	faults.Seed(c.Config.Seed)
	server, err := placementsim.New(c.Config, placementsim.WithFaults(faults))
	if err != nil {
		return badInput(err)
	}
	if err := c.set(faults); err != nil {
		return err
	}
	listener, err := c.open(p)
	if err != nil {
		return err
	}
	defer listener.Close()
	base := baseURL(listener)
	if err := printExports(p.stdout, variable{"CYSIM_PLACEMENT_URL", base}); err != nil {
		return err
	}
	p.log.Info(fmt.Sprintf("Placement listens on %s", base))
	return serveHTTP(p.ctx, listener, c.guard(withControl(server, faults)), p.log)
}

// maxRequests is how many requests a service that stands alone remembers.
const maxRequests = 1000

// withControl serves /_sim/ beside Placement, as a whole cloud does.
func withControl(server *placementsim.Server, faults *fault.Set) http.Handler {
	recorder := simhttp.NewRecorder(maxRequests)
	control := simhttp.Control{
		Faults: faults, Recorder: recorder, Others: server.Routes(),
		More: map[string]http.HandlerFunc{"GET /_sim/explain": server.ServeExplain},
	}
	own := control.Handler()
	return simhttp.Recording(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/_sim/") {
			own.ServeHTTP(w, r)
			return
		}
		server.ServeHTTP(w, r)
	}), recorder)
}
