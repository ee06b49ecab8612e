package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// versionCommand prints what was built, from what, by which compiler.
type versionCommand struct{}

// Run implements the command.
func (versionCommand) Run(p *process) error {
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
	_, err := fmt.Fprintf(p.stdout, "cysim %s%s %s %s/%s\n", version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
