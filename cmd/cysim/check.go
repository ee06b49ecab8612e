package main

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/control"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/simcloud"
)

// checkCommand lists the leaks of a cloud that serve runs.
type checkCommand struct {
	URL          command.URL `arg:"" env:"CYSIM_URL" help:"Address of the cloud, such as http://127.0.0.1:8780. Default: CYSIM_URL."`
	ControlToken string      `placeholder:"TOKEN" help:"Control token of the cloud, if it has one."`
	GuestsFrom   string      `enum:",nova" default:"" placeholder:"nova" help:"nova: the cloud asks the compute API of its --catalog which servers exist. Default: the setting of cysim serve."`
	Output       string      `short:"o" enum:"text,json" default:"text" help:"Output format: text, one sentence per leak; json, a list with kind, subject, text and arq."`
}

// Run implements the command.
func (c *checkCommand) Run(ctx context.Context, p *command.Process) error {
	path := "leaks"
	if c.GuestsFrom != "" {
		path += "?guests_from=" + c.GuestsFrom
	}
	p.Doing("waiting for %s", c.URL)
	var leaks []simcloud.Leak
	if err := (control.Server{URL: c.URL, ControlToken: c.ControlToken}).Show(ctx, path, "leaks", &leaks); err != nil {
		return fmt.Errorf("list leaks: %w", err)
	}
	err := command.WriteList(p.Stdout, c.Output, leaks, func(l simcloud.Leak) string { return l.Text })
	switch {
	case err != nil:
	case len(leaks) > 0:
		err = command.Leaked(plural.Count(len(leaks), "leak"))
	case c.Output == "text":
		_, err = fmt.Fprintln(p.Stdout, "nothing leaked")
	}
	return err
}
