package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// versionCommand prints the version, the revision and the compiler.
type versionCommand struct{}

// Run implements the command.
func (versionCommand) Run(_ context.Context, p *command.Process) error {
	info, ok := debug.ReadBuildInfo()
	version, revision := "(devel)", ""
	if ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	if ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = " " + setting.Value
			}
		}
	}
	_, err := fmt.Fprintf(p.Stdout, "cysim %s%s %s %s/%s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
