package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

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
