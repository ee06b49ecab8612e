package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"slices"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/control"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// maxState limits the size of a state document, in bytes.
const maxState = 1 << 30

// stateFlags select the state that a cloud starts from, and the file that keeps its state.
type stateFlags struct {
	State string `placeholder:"FILE" help:"Keep the state of the cloud in this file, and continue from it. Each change is on the disk before it is answered."`
	From  string `placeholder:"FILE" help:"Start from this state of cysim import, cysim state show or GET /_sim/state, instead of a model."`
}

// cloud makes a cloud from a model or from a state. Before it looks at the hardware of the hosts, it
// calls lock with them.
func (f stateFlags) cloud(ctx context.Context, model simcloud.Model, options []simcloud.Option, lock func([]simcloud.Host) error) (*simcloud.Cloud, error) {
	hasModel := !reflect.DeepEqual(model, simcloud.Model{})
	if f.State != "" {
		options = append(options, simcloud.WithStateFile(f.State))
	}
	switch {
	case f.From != "" && hasModel:
		return nil, command.BadInput(errors.New("--from: the state contains a model; remove the flags of the model"))
	case f.From != "":
		data, err := readState(ctx, f.From)
		if err != nil {
			return nil, command.BadInput(fmt.Errorf("--from: %w", err))
		}
		if err := lock(hostsOf(data)); err != nil {
			return nil, err
		}
		return simcloud.FromState(ctx, data, options...)
	case f.State != "" && !hasModel:
		own, err := simcloud.ReadStateFileModel(f.State)
		switch {
		case err == nil:
			model = own
		case !errors.Is(err, simcloud.ErrEmptyState) && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("--state: %w", err)
		}
	}
	if err := lock(model.Hosts); err != nil {
		return nil, err
	}
	return simcloud.New(ctx, model, options...)
}

// hostsOf reads the hosts of a state's model, and not its rows. A state that cannot be loaded may have none.
func hostsOf(state simcloud.State) []simcloud.Host {
	var model struct {
		Hosts []simcloud.Host `json:"hosts"`
	}
	if header, _, err := tables.ReadDocument(bytes.NewReader(state)); err == nil {
		_ = json.Unmarshal(header.Model, &model)
	}
	return model.Hosts
}

// stateCommand prints and compares states.
type stateCommand struct {
	Save control.StateSave `cmd:"" help:"Write the state of a running cloud to a file."`
	Load control.StateLoad `cmd:"" help:"Replace the state of a running cloud by one of the same model."`
	Show stateShowCommand  `cmd:"" help:"Print the state in a file of serve --state as JSON lines."`
	Diff stateDiffCommand  `cmd:"" help:"Compare two states, one difference per line. Exits 1 if they differ."`
}

type stateShowCommand struct {
	File string `arg:"" help:"File of serve --state, or a state document."`
}

// Run implements the command.
func (c *stateShowCommand) Run(ctx context.Context, p *command.Process) error {
	data, err := readState(ctx, c.File)
	if err != nil {
		return command.BadInput(err)
	}
	if _, err := data.Model(); err != nil {
		return command.BadInput(fmt.Errorf("%s: %w", c.File, err))
	}
	_, err = fmt.Fprintf(p.Stdout, "%s\n", bytes.TrimSpace(data))
	return err
}

type stateDiffCommand struct {
	Before string   `arg:"" help:"File of serve --state, or a state document."`
	After  string   `arg:"" help:"State to compare with."`
	Ignore []string `enum:"ids,times,tokens" placeholder:"ids" help:"Ignore generated identifiers (ids), values of times (times), or issued tokens (tokens)."`
	Output string   `short:"o" enum:"text,json" default:"text" help:"Output format: text, one line per difference; json, a list with path, before and after."`
}

// Run implements the command.
func (c *stateDiffCommand) Run(ctx context.Context, p *command.Process) error {
	before, err := readState(ctx, c.Before)
	if err != nil {
		return command.BadInput(err)
	}
	after, err := readState(ctx, c.After)
	if err != nil {
		return command.BadInput(err)
	}
	diff := before.Diff
	if slices.Contains(c.Ignore, "ids") {
		diff = before.DiffContent
	}
	found, err := diff(after)
	if err != nil {
		return command.BadInput(err)
	}
	found = slices.DeleteFunc(found, func(d sim.Difference) bool {
		return slices.Contains(c.Ignore, "times") && d.IsTime() || slices.Contains(c.Ignore, "tokens") && d.IsToken()
	})
	if err := command.WriteList(p.Stdout, c.Output, found, sim.Difference.String); err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	return errors.New("the states differ: " + plural.Count(len(found), "difference"))
}

// readState reads a document, or the state in a file of serve --state.
func readState(ctx context.Context, name string) (simcloud.State, error) {
	return command.Read(ctx, name, func() (simcloud.State, error) {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		var first [1]byte
		if _, err := io.ReadFull(file, first[:]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if first[0] != '{' {
			return simcloud.ReadStateFile(name)
		}
		return command.ReadAll(io.MultiReader(bytes.NewReader(first[:]), file), name, maxState)
	})
}
