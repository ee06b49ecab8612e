package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/discover"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/importer"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/load"
)

// cli is the command line.
type cli struct {
	Serve     serveCommand     `cmd:"" help:"Serve a whole cloud on one port: Keystone, Placement, Cyborg and stand-ins for Nova and Glance."`
	Placement placementCommand `cmd:"" help:"Serve Placement alone, at the root of its port."`
	Cyborg    cyborgCommand    `cmd:"" help:"Serve Cyborg alone, at the root of its port, with a Placement elsewhere."`
	Discover  discover.Command `cmd:"" help:"Show which devices of this machine can be assigned to guests, and why the others cannot."`
	Mdev      discover.Mdev    `cmd:"" help:"Create and remove mediated devices and vGPUs on this machine, as an agent's binds do."`
	Unflatten unflattenCommand `cmd:"" help:"Remove Cyborg's classes and traits from the compute providers of a Placement, so that the next report builds the tree."`
	Check     checkCommand     `cmd:"" help:"List the leaked resources of a running cloud. Exits 9 if there are any."`
	Load      load.Command     `cmd:"" help:"Run spawn/delete cycles and report rates, latencies and leaks."`
	Lint      lintCommand      `cmd:"" help:"Check flavors and device profiles before they are used."`
	Import    importer.Command `cmd:"" help:"Make a state for serve from what a real cloud lists of Placement and Cyborg."`
	State     stateCommand     `cmd:"" help:"Print and compare the states that serve --state keeps."`
	Version   versionCommand   `cmd:"" help:"Print the version."`
}

// run parses the arguments, runs the command until the context ends, and returns the exit
// status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run(ctx, new(cli), args, stdout, stderr,
		kong.Description("Simulated OpenStack clouds with accelerators, for tests and trials."), kong.PostBuild(describeFlags))
}

// versionCommand prints the version, which names the revision, and the compiler.
type versionCommand struct{}

// Run implements the command.
func (versionCommand) Run(_ context.Context, p *command.Process) error {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(info.Main.Version, version)
	}
	_, err := fmt.Fprintf(p.Stdout, "cysim %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
