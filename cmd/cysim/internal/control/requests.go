package control

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/sim"
)

// Requests shows the record of requests of a server.
type Requests struct {
	List    requestsList    `cmd:"" default:"withargs" help:"List the newest requests, the newest last."`
	Diagram requestsDiagram `cmd:"" help:"Draw the last requests as a sequence diagram of Mermaid."`
	Clear   requestsClear   `cmd:"" help:"Empty the record of requests."`
}

type requestsList struct {
	Server
	Limit   int    `default:"20" placeholder:"N" help:"Number of requests (${default})."`
	Changes bool   `help:"List what each request changed, in the same line."`
	Output  string `short:"o" enum:"text,json" default:"text" help:"Output format: text, one line per request; json, a list of requests with their changes."`
}

// Run implements the command.
func (c *requestsList) Run(ctx context.Context, p *command.Process) error {
	if c.Limit < 1 {
		return command.BadInput(fmt.Errorf("requests: --limit %d: want at least 1", c.Limit))
	}
	var requests []sim.Exchange
	if err := c.Show(ctx, "requests?limit="+strconv.Itoa(c.Limit), "requests", &requests); err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	return command.WriteList(p.Stdout, c.Output, requests, c.line)
}

// line is a request, with its changes if requested.
func (c *requestsList) line(e sim.Exchange) string {
	path := e.Path
	if e.Query != "" {
		path += "?" + e.Query
	}
	text := fmt.Sprintf("%s  %3d  %s %s", e.Started.UTC().Format(time.TimeOnly), e.Status, e.Method, path)
	if e.Fault != "" {
		text += "  (fault: " + e.Fault + ")"
	}
	if c.Changes {
		for _, change := range e.Changes {
			text += fmt.Sprintf("; %s %s %s", change.Action, change.Kind, change.ID)
			if change.What != "" {
				text += " (" + change.What + ")"
			}
		}
	}
	return text
}

type requestsDiagram struct{ Server }

// Run implements the command.
func (c *requestsDiagram) Run(ctx context.Context, p *command.Process) error {
	answer, err := c.send(ctx, http.MethodGet, "requests/diagram", nil, httpbounds.AnswerLimit)
	if err != nil {
		return fmt.Errorf("requests diagram: %w", err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(p.Stdout, answer.Body); err != nil {
		return fmt.Errorf("requests diagram: %w", err)
	}
	return nil
}

type requestsClear struct{ Server }

// Run implements the command.
func (c *requestsClear) Run(ctx context.Context, p *command.Process) error {
	if err := c.Change(ctx, http.MethodDelete, "requests", nil); err != nil {
		return fmt.Errorf("requests clear: %w", err)
	}
	_, err := fmt.Fprintln(p.Stdout, "no requests")
	return err
}
