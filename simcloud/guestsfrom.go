package simcloud

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud/internal/client"
	"github.com/gocyborg/gocyborg/simcloud/internal/leaks"
)

// GuestSource is a source of guests for the leak check, in addition to the registered ones.
type GuestSource string

// GuestsFromNova is the Nova that the catalog of the model names: its servers are guests.
const GuestsFromNova GuestSource = "nova"

// guestSource checks where guests come from.
func (c *validation) guestSource(m Model) {
	switch {
	case m.GuestsFrom != "" && m.GuestsFrom != GuestsFromNova:
		c.fault("guests_from", fmt.Sprintf("%q is not %q", m.GuestsFrom, GuestsFromNova))
	case m.GuestsFrom != "" && m.Catalog["compute"] == "":
		c.fault("guests_from", "the catalog names no compute service elsewhere")
	}
}

// leaksBeside is Leaks with the guests of a source. It returns an error if Nova does not list its
// servers: then nothing is known to have leaked.
func (c *Cloud) leaksBeside(ctx context.Context, source GuestSource) ([]Leak, error) {
	var servers []client.Server // nil: of no Nova
	if source != "" {
		list, err := c.servers.Servers(ctx)
		if err != nil {
			return nil, err
		}
		servers = append([]client.Server{}, list...)
	}
	var list []Leak
	for _, l := range leaks.Check(c.snapshot(servers).State) {
		list = append(list, Leak(l))
	}
	return list, nil
}

// newServers is a client of the Nova that the catalog names, nil without one.
func (c *Cloud) newServers() *client.Client {
	url, ok := c.model.Catalog["compute"]
	if !ok {
		return nil
	}
	return &client.Client{Peer: simhttp.Peer{Agent: "simcloud", Endpoint: sim.Endpoint{
		URL: url, Client: &http.Client{Timeout: 30 * time.Second}, Token: c.tokenSource("admin"),
	}}}
}

// getLeaks answers the leaks. The query may name a source of further guests.
func (c *Cloud) getLeaks(w http.ResponseWriter, r *http.Request) error {
	source := c.model.GuestsFrom
	if query := r.URL.Query(); query.Has("guests_from") {
		source = GuestSource(query.Get("guests_from"))
	}
	switch {
	case source != "" && source != GuestsFromNova:
		return simhttp.Refuse(http.StatusBadRequest, "guests_from: %q is not %q", source, GuestsFromNova)
	case source != "" && c.servers == nil:
		return simhttp.Refuse(http.StatusConflict, "guests_from: the catalog names no compute service elsewhere (cysim serve --catalog compute=URL)")
	}
	leaks, err := c.leaksBeside(r.Context(), source)
	if err != nil {
		return simhttp.Refuse(http.StatusBadGateway, "request to Nova failed: %v", err)
	}
	simhttp.WriteControl(w, http.StatusOK, simhttp.ControlBody("leaks", append([]Leak{}, leaks...))) // not null
	return nil
}
