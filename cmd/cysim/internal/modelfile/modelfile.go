package modelfile

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/discover"
	programs "github.com/gocyborg/gocyborg/driver/command"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/simcloud"
)

// MaxSize limits a model file, in bytes.
const MaxSize = 64 << 20

// schemaFile describes a model file as a JSON schema. It is generated.
//
//go:embed schema.json
var schemaFile []byte

// Command prints and checks models.
type Command struct {
	Default DefaultCommand `cmd:"" help:"Print the model of a cloud without --model, as a file to start from."`
	Check   CheckCommand   `cmd:"" help:"Check a model file. Exits 2 if it is not valid."`
	Schema  SchemaCommand  `cmd:"" help:"Print the JSON schema of model files."`
}

// DefaultCommand prints the default model.
type DefaultCommand struct{}

// Run implements the command.
func (DefaultCommand) Run(_ context.Context, p *command.Process) error {
	return command.WriteJSON(p.Stdout, simcloud.DefaultModel())
}

// CheckCommand checks a file.
type CheckCommand struct {
	File string `arg:"" help:"Model in JSON."`
}

// Run implements the command. A cloud of the model is built, unless that would read the hardware
// of this machine.
func (c *CheckCommand) Run(ctx context.Context, p *command.Process) error {
	drivers := simcloud.WithDriver(discover.ProgramDriver, programs.Loader(p.Log, false))
	data, err := command.ReadFile(ctx, c.File, MaxSize)
	if err != nil {
		return command.BadInput(err)
	}
	p.Doing("reading the model")
	model, err := simcloud.ParseModel(data, drivers)
	if err != nil {
		return command.BadInput(fmt.Errorf("%s: %w", c.File, err))
	}
	if isSynthetic(model) {
		p.Doing("building a cloud of %s", count(model.Hosts, "host"))
		cloud, err := simcloud.New(ctx, model, drivers)
		if err != nil {
			return command.BadInput(fmt.Errorf("%s: %w", c.File, err))
		}
		if err := cloud.Close(); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(p.Stdout, "valid: %s, %s, %s\n", count(model.Hosts, "host"), count(model.DeviceProfiles, "device profile"), count(model.Flavors, "flavor"))
	return err
}

// isSynthetic reports whether no host has a directory or a program.
func isSynthetic(m simcloud.Model) bool {
	return !slices.ContainsFunc(m.Hosts, func(h simcloud.Host) bool {
		return h.Sysfs != nil && h.Sysfs.Dir != "" || h.Drivers != nil && slices.Contains(h.Drivers.EnabledDrivers, discover.ProgramDriver)
	})
}

// count names the amount of a list of the model.
func count[T any](list []T, noun string) string {
	if list == nil {
		return "the default " + noun + "s"
	}
	return plural.Count(len(list), noun)
}

// SchemaCommand prints the schema.
type SchemaCommand struct{}

// Run implements the command.
func (SchemaCommand) Run(_ context.Context, p *command.Process) error {
	_, err := p.Stdout.Write(schemaFile)
	return err
}
