package control

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/sim"
)

// Guest lists and changes the guests that the leak check of a cloud treats as running.
type Guest struct {
	List   guestList   `cmd:"" default:"withargs" help:"List the registered guests."`
	Show   guestShow   `cmd:"" help:"Print the libvirt domain of a guest."`
	Add    guestAdd    `cmd:"" help:"Register a running instance, or replace its host and domain."`
	Remove guestRemove `cmd:"" help:"Remove a guest: its instance no longer runs."`
}

type guestList struct {
	Server
	Output string `short:"o" enum:"text,json" default:"text" help:"Output format: text, a table; json, a list with uuid, host and domain."`
}

// Run implements the command.
func (c *guestList) Run(ctx context.Context, p *command.Process) error {
	var guests []sim.Guest
	if err := c.Server.Show(ctx, "guests", "guests", &guests); err != nil {
		return fmt.Errorf("guest list: %w", err)
	}
	return command.WriteTable(p.Stdout, c.Output, "no guests", guests, []any{"Instance", "Host", "Devices"}, func(g sim.Guest) []any {
		return []any{g.UUID, g.Host, strings.Count(g.Domain, "<hostdev ")}
	})
}

type guestShow struct {
	Server
	Instance string `arg:"" help:"UUID of the instance."`
	Output   string `short:"o" enum:"text,json" default:"text" help:"Output format: text, the libvirt domain; json, an object with uuid, host and domain."`
}

// Run implements the command.
func (c *guestShow) Run(ctx context.Context, p *command.Process) error {
	var guest sim.Guest
	if err := c.Server.Show(ctx, "guests/"+url.PathEscape(c.Instance), "guest", &guest); err != nil {
		return fmt.Errorf("guest show %s: %w", c.Instance, err)
	}
	if c.Output == "json" {
		return command.WriteJSON(p.Stdout, guest)
	}
	_, err := fmt.Fprintln(p.Stdout, strings.TrimSpace(guest.Domain))
	return err
}

type guestAdd struct {
	Server
	Instance string `arg:"" help:"UUID of the instance."`
	Host     string `required:"" placeholder:"NAME" help:"Host on which it runs."`
	Domain   string `placeholder:"FILE" help:"File with its libvirt domain (XML). Default: none."`
}

// maxDomain limits the size of a libvirt domain, in bytes.
const maxDomain = 1 << 20

// Run implements the command.
func (c *guestAdd) Run(ctx context.Context, p *command.Process) error {
	guest := sim.Guest{UUID: c.Instance, Host: c.Host}
	if c.Domain != "" {
		data, err := command.ReadFile(ctx, c.Domain, maxDomain)
		if err != nil {
			return command.BadInput(fmt.Errorf("--domain: %w", err))
		}
		guest.Domain = string(data)
	}
	if err := c.Change(ctx, http.MethodPut, "guests/"+url.PathEscape(c.Instance), guest); err != nil {
		return fmt.Errorf("guest add %s: %w", c.Instance, err)
	}
	_, err := fmt.Fprintf(p.Stdout, "guest %s runs on %s\n", c.Instance, c.Host)
	return err
}

type guestRemove struct {
	Server
	Instance string `arg:"" help:"UUID of the instance."`
}

// Run implements the command.
func (c *guestRemove) Run(ctx context.Context, p *command.Process) error {
	if err := c.Change(ctx, http.MethodDelete, "guests/"+url.PathEscape(c.Instance), nil); err != nil {
		return fmt.Errorf("guest remove %s: %w", c.Instance, err)
	}
	_, err := fmt.Fprintf(p.Stdout, "guest %s is removed\n", c.Instance)
	return err
}
