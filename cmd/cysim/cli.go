package main

import (
	"context"
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/completion"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/control"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/discover"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/importer"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/load"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/modelfile"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/servers"
)

// cli is the command line.
type cli struct {
	Version versionFlag `help:"Print the version."`

	Serve     serveCommand     `cmd:"" group:"serve" help:"Serve a whole cloud on one port: Keystone, Placement, Cyborg and stand-ins for Nova and Glance."`
	Placement placementCommand `cmd:"" group:"serve" help:"Serve Placement alone, at the root of its port."`
	Cyborg    cyborgCommand    `cmd:"" group:"serve" help:"Serve Cyborg alone, at the root of its port, with a Placement that runs elsewhere."`

	Ready readyCommand        `cmd:"" group:"running" help:"Check whether a server of cysim is ready."`
	List  servers.ListCommand `cmd:"" group:"running" help:"List the running servers of this user."`
	Stop  servers.StopCommand `cmd:"" group:"running" help:"Stop a running server, and wait until it has ended."`
	Check checkCommand        `cmd:"" group:"running" aliases:"leaks" help:"List the leaked resources of a running cloud. Exits 9 if there are any."`
	Load  load.Command        `cmd:"" group:"running" help:"Run spawn/delete cycles and report rates, latencies and leaks."`

	Fault    control.Fault    `cmd:"" group:"running" help:"List, add and clear fault rules."`
	Guest    control.Guest    `cmd:"" group:"running" help:"List, show, register and remove guests."`
	ARQ      control.ARQ      `cmd:"" name:"arq" group:"running" help:"List, create, bind and delete accelerator requests as Nova does."`
	Requests control.Requests `cmd:"" group:"running" help:"List the requests that a server answered, and what they changed."`
	Explain  control.Explain  `cmd:"" group:"running" help:"Explain why a host is not an allocation candidate."`
	Clock    control.Clock    `cmd:"" group:"running" help:"Show, advance and set the time of a cloud."`

	Lint   lintCommand       `cmd:"" group:"files" help:"Check flavors and device profiles before they are used."`
	Import importer.Command  `cmd:"" group:"files" help:"Read the Placement and Cyborg of a real cloud and write a state for serve."`
	Model  modelfile.Command `cmd:"" group:"files" help:"Print and check models, the files of serve --model."`
	State  stateCommand      `cmd:"" group:"files" help:"Save, load, print and compare states of clouds."`

	Discover  discover.Command `cmd:"" group:"machine" help:"Show which devices of this machine can be assigned to guests, and why others cannot."`
	Mdev      discover.Mdev    `cmd:"" group:"machine" help:"Create and remove mediated devices and vGPUs on this machine, as Cyborg's agent does."`
	Unflatten unflattenCommand `cmd:"" group:"machine" help:"Remove Cyborg's classes and traits from the compute providers of a Placement, so that the next report builds the tree."`

	Help           helpCommand           `cmd:"" group:"cysim" help:"Describe a command."`
	Completion     completion.Command    `cmd:"" group:"cysim" help:"Print a script that completes commands and flags in bash, zsh or fish."`
	VersionCommand versionCommand        `cmd:"" name:"version" group:"cysim" help:"Print the version."`
	Complete       completion.Candidates `cmd:"" hidden:"" help:"List the completions of the last word of a command line."`
}

// groups are the headings of the commands and of the flags.
func groups() kong.Option {
	return kong.Groups{
		"serve": "Serve a cloud, or a part of one:", "running": "Use a running cloud:", "files": "Files:",
		"machine": "Hardware and real clouds:", "cysim": "cysim itself:",
		"server": "Server:", "cloud": "Cloud:", "state": "State and time:", "faults": "Faults:", "nova": "Nova and its events:",
		"hardware": "Hardware of this machine:", "services": "Other services:",
		"cyborg-flags": "Cyborg:", "placement-flags": "Placement:",
	}
}

// run parses the arguments, runs the command until the context ends, and returns the exit
// status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	return command.Run(ctx, new(cli), args, stdout, stderr,
		kong.Description("Simulated OpenStack clouds with accelerators, for tests and trials. A variable such as CYSIM_CONTROL_TOKEN sets a flag such as --control-token that is not given."), groups(), kong.PostBuild(describeFlags))
}

// helpCommand is --help as a command.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command to describe, such as state diff."`
}

// Run implements the command.
func (c helpCommand) Run(_ context.Context, line *kong.Context) error {
	described, err := kong.Trace(line.Kong, c.Command)
	if err == nil && described.Error != nil && described.Selected() == nil && len(c.Command) > 0 {
		err = described.Error
	}
	if err != nil {
		return command.BadInput(fmt.Errorf("help: %w", err))
	}
	return described.PrintUsage(false)
}
