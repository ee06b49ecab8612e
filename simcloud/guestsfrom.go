package simcloud

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gocyborg/gocyborg/internal/nova"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud/internal/client"
)

// GuestSource says who knows which guests live, beside those that were registered.
type GuestSource string

// GuestsFromNova is the Nova that the catalog of the model names: its servers live.
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

// leaksBeside is Leaks with the guests of a source. The error is for a Nova that does not tell its servers: then
// nothing is known to have leaked.
func (c *Cloud) leaksBeside(ctx context.Context, source GuestSource) ([]Leak, error) {
	if source == "" {
		return c.check(c.snapshot(nil)), nil
	}
	servers, err := c.servers.Servers(ctx)
	if err != nil {
		return nil, err
	}
	return c.check(c.snapshot(append([]client.Server{}, servers...))), nil
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

// addServers adds the servers of a Nova to the guests. Of one that is registered, too, the domain is known.
func (s *snapshot) addServers(servers []client.Server) {
	registered := byKey(s.guests, func(g *guest) string { return g.UUID })
	var list []guest
	for _, server := range servers {
		g := guest{Guest: nova.Guest{Guest: sim.Guest{UUID: uuids.Canonical(server.ID), Host: server.Host}}, left: server.Left}
		if known := registered[g.UUID]; known == nil {
			list = append(list, g)
		} else {
			known.Host, known.left = cmp.Or(g.Host, known.Host), g.left
		}
	}
	s.guests = append(s.guests, list...)
}

// noGuest says what an instance is that is no guest.
func (s *snapshot) noGuest() string {
	if s.besideNova {
		return "neither a server of Nova's nor a registered guest"
	}
	return "not a registered guest"
}

// getLeaks answers the leaks, beside the guests of a source that the query may name.
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
		return simhttp.Refuse(http.StatusBadGateway, "Nova cannot be asked for its servers: %v", err)
	}
	simhttp.WriteJSON(w, http.StatusOK, simhttp.ControlBody("leaks", append([]Leak{}, leaks...))) // not null
	return nil
}
