package control

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// StateSave writes the state of a running cloud to a file.
type StateSave struct {
	Server
	File string `arg:"" optional:"" help:"File for the state. Default: the standard output."`
}

// Run implements the command. A state that does not arrive whole leaves the file as it was.
func (c *StateSave) Run(ctx context.Context, p *command.Process) error {
	answer, err := c.send(ctx, http.MethodGet, "state", nil, maxState)
	if err != nil {
		return fmt.Errorf("state save: %w", err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return fmt.Errorf("state save: %w", err)
	}
	if c.File == "" {
		_, err = p.Stdout.Write(data)
		return err
	}
	if err := command.WriteFile("state save", c.File, data); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Stdout, "the state is in "+c.File)
	return err
}

// StateLoad replaces the state of a running cloud.
type StateLoad struct {
	Server
	File string `arg:"" help:"State document of a cloud with the same model."`
}

// maxState limits the size of a state document, in bytes.
const maxState = 1 << 30

// Run implements the command.
func (c *StateLoad) Run(ctx context.Context, p *command.Process) error {
	file, err := os.Open(c.File)
	if err != nil {
		return command.BadInput(fmt.Errorf("state load: %w", err))
	}
	defer file.Close()
	answer, err := c.send(ctx, http.MethodPut, "state", file, maxState)
	if err != nil {
		return fmt.Errorf("state load: %w", err)
	}
	if err := answer.Body.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Stdout, "the state is loaded")
	return err
}
