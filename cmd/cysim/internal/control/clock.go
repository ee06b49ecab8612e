package control

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// Clock shows and changes the time of a cloud.
type Clock struct {
	Show    clockShow    `cmd:"" default:"withargs" help:"Show the time of the cloud."`
	Advance clockAdvance `cmd:"" help:"Advance the clock of a cloud of serve --manual-clock."`
	Set     clockSet     `cmd:"" help:"Set the clock of a cloud of serve --manual-clock, back as well as forward."`
}

// reading is the time of a cloud as the control API shows it.
type reading struct {
	Now     time.Time `json:"now"`
	Manual  bool      `json:"manual"`
	Waiting int       `json:"waiting"`
}

// clockOutput is the format in which the time is shown.
type clockOutput struct {
	Server
	Output string `short:"o" enum:"text,json" default:"text" help:"Output format: text, the time; json, an object with now, manual and waiting."`
}

func (c clockOutput) show(ctx context.Context, p *command.Process, what string) error {
	var now reading
	if err := c.Show(ctx, "clock", "clock", &now); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if c.Output == "json" {
		return command.WriteJSON(p.Stdout, now)
	}
	_, err := fmt.Fprintln(p.Stdout, now.Now.Format(time.RFC3339Nano))
	return err
}

// change sends a change of the clock, and shows the time after it.
func (c clockOutput) change(ctx context.Context, p *command.Process, what string, change any) error {
	if err := c.Change(ctx, http.MethodPost, "clock", change); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return c.show(ctx, p, what)
}

type clockShow struct{ clockOutput }

// Run implements the command.
func (c *clockShow) Run(ctx context.Context, p *command.Process) error {
	return c.show(ctx, p, "clock show")
}

type clockAdvance struct {
	clockOutput
	By time.Duration `arg:"" help:"How far, such as 90s or 24h."`
}

// Run implements the command.
func (c *clockAdvance) Run(ctx context.Context, p *command.Process) error {
	return c.change(ctx, p, "clock advance", map[string]string{"advance": c.By.String()})
}

type clockSet struct {
	clockOutput
	Now time.Time `arg:"" help:"Time, such as 2026-01-01T00:00:00Z."`
}

// Run implements the command.
func (c *clockSet) Run(ctx context.Context, p *command.Process) error {
	return c.change(ctx, p, "clock set", map[string]time.Time{"now": c.Now})
}
