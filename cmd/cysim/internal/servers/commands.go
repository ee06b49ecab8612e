package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// ListCommand lists the running servers of this user.
type ListCommand struct {
	Output string `short:"o" enum:"text,json" default:"text" help:"Output format: text, a table; json, a list with pid, command, url, started and machine."`
}

// Run implements the command.
func (c *ListCommand) Run(_ context.Context, p *command.Process) error {
	running, err := List()
	if err != nil {
		return fmt.Errorf("list servers: %w", err)
	}
	return command.WriteTable(p.Stdout, c.Output, "no servers", running, []any{"PID", "Command", "URL", "Started"}, func(s Server) []any {
		return []any{s.PID, s.Command, s.URL, s.Started.Format(time.DateTime)}
	})
}

// StopCommand ends running servers of this user.
type StopCommand struct {
	Server string `arg:"" optional:"" env:"CYSIM_PID" help:"Process ID or URL of the server. Default: CYSIM_PID, or the only server of this user."`
	All    bool   `help:"Stop every server of this user."`
}

// Run implements the command.
func (c *StopCommand) Run(ctx context.Context, p *command.Process) error {
	running, err := List()
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	chosen, err := c.choose(running)
	if err != nil {
		return err
	}
	var failures []error
	for _, s := range chosen {
		if err := stop(ctx, s); err != nil {
			failures = append(failures, fmt.Errorf("stop process %d (%s): %w", s.PID, s.URL, err))
			continue
		}
		if _, err := fmt.Fprintf(p.Stdout, "stopped process %d (%s)\n", s.PID, s.URL); err != nil {
			return err
		}
	}
	return errors.Join(failures...)
}

// choose returns the servers to stop.
func (c *StopCommand) choose(running []Server) ([]Server, error) {
	if c.All {
		return running, nil
	}
	for _, s := range running {
		if c.Server == strconv.Itoa(s.PID) || c.Server != "" && strings.TrimSuffix(c.Server, "/") == s.URL {
			return []Server{s}, nil
		}
	}
	switch {
	case c.Server != "":
		return nil, command.BadInput(fmt.Errorf("stop: no server %s of this user runs; cysim list lists them", c.Server))
	case len(running) == 0:
		return nil, errors.New("stop: no server of this user runs")
	case len(running) > 1:
		return nil, command.BadInput(fmt.Errorf("stop: %s run; name one by its process ID or URL, or give --all; cysim list lists them", plural.Count(len(running), "server")))
	}
	return running, nil
}

// The time that a server has to end after a signal, and the pause between two looks.
const (
	stopTimeout = 10 * time.Second
	stopPause   = 20 * time.Millisecond
)

// stop ends a server and waits until it has ended.
func stop(ctx context.Context, s Server) error {
	process, err := os.FindProcess(s.PID)
	if err != nil {
		return err
	}
	if err := signal(process); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	clock := simhttp.Wall{}
	for deadline := clock.Now().Add(stopTimeout); clock.Now().Before(deadline); {
		running, err := List()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(running, func(r Server) bool { return r.PID == s.PID }) {
			return nil
		}
		if err := clock.Wait(ctx, stopPause); err != nil {
			return err
		}
	}
	return fmt.Errorf("it still runs after %s", stopTimeout)
}
