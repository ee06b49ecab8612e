package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/simcloud"
)

// maxState is the longest state document that is read, in bytes.
const maxState = 1 << 30

// stateFlags say where the state of a cloud comes from and where it is kept.
type stateFlags struct {
	State string `placeholder:"FILE" help:"Keep the cloud in this file and go on with it next time: each change is on the disk before it is answered."`
	From  string `placeholder:"FILE" help:"Start from this state, as cysim import, cysim state show or GET /_sim/state give it, instead of a model."`
}

// cloud makes the cloud of a model, or that of a state.
func (f stateFlags) cloud(p *process, model simcloud.Model, options []simcloud.Option) (*simcloud.Cloud, error) {
	given := !reflect.DeepEqual(model, simcloud.Model{})
	if f.State != "" {
		options = append(options, simcloud.WithStateFile(f.State))
	}
	switch {
	case f.From != "" && given:
		return nil, badInput(errors.New("--from: the state says what the world is; leave the flags about the world out"))
	case f.From != "":
		data, err := readState(f.From)
		if err != nil {
			return nil, badInput(fmt.Errorf("--from: %w", err))
		}
		return simcloud.FromState(p.ctx, data, options...)
	case f.State != "" && !given:
		data, err := simcloud.ReadStateFile(f.State)
		switch {
		case errors.Is(err, simcloud.ErrEmptyState), errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("--state: %w", err)
		default:
			if model, err = simcloud.StateModel(data); err != nil {
				return nil, fmt.Errorf("--state: %w", err)
			}
		}
	}
	return simcloud.New(p.ctx, model, options...)
}

// stateCommand looks at states.
type stateCommand struct {
	Show stateShowCommand `cmd:"" help:"Print the state in a file of serve --state as JSON."`
	Diff stateDiffCommand `cmd:"" help:"Tell in what two states differ, a line each. Exit status 1: they do."`
}

type stateShowCommand struct {
	File string `arg:"" help:"File of serve --state, or a JSON document of a state."`
}

// Run implements the command.
func (c *stateShowCommand) Run(p *process) error {
	data, err := readState(c.File)
	if err != nil {
		return badInput(err)
	}
	if _, err := simcloud.StateModel(data); err != nil {
		return badInput(fmt.Errorf("%s: %w", c.File, err))
	}
	_, err = fmt.Fprintf(p.stdout, "%s\n", bytes.TrimSpace(data))
	return err
}

type stateDiffCommand struct {
	Before string `arg:"" help:"File of serve --state, or a JSON document of a state."`
	After  string `arg:"" help:"The one to compare it with."`
	Output string `short:"o" enum:"text,json" default:"text" help:"text: a line for each difference; json: a list with path, before and after."`
}

// errDiffers is the end of a comparison that found something.
var errDiffers = errors.New("the states differ")

// Run implements the command.
func (c *stateDiffCommand) Run(p *process) error {
	before, err := readState(c.Before)
	if err != nil {
		return badInput(err)
	}
	after, err := readState(c.After)
	if err != nil {
		return badInput(err)
	}
	found, err := simcloud.DiffStates(before, after)
	if err != nil {
		return badInput(err)
	}
	if err := c.print(p.stdout, found); err != nil {
		return err
	}
	switch len(found) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%w: 1 difference", errDiffers)
	}
	return fmt.Errorf("%w: %d differences", errDiffers, len(found))
}

func (c *stateDiffCommand) print(w io.Writer, found []simcloud.Difference) error {
	if c.Output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(append([]simcloud.Difference{}, found...))
	}
	for _, d := range found {
		if _, err := fmt.Fprintln(w, d); err != nil {
			return err
		}
	}
	return nil
}

// readState reads a document, or that in a file of serve --state.
func readState(name string) ([]byte, error) {
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
	return boundedBy(maxState, name, io.MultiReader(bytes.NewReader(first[:]), file))
}

var _ kong.HelpProvider = (*stateCommand)(nil)

// Help implements kong.HelpProvider.
func (*stateCommand) Help() string {
	return "A running cloud gives its state at GET /_sim/state, and takes one of the same model with PUT."
}
