package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// versionCommand prints what this cysim was built from.
type versionCommand struct {
	Output string `short:"o" enum:"text,json" default:"text" help:"Output format: text, one line; json, an object."`
}

// Help implements kong.HelpProvider.
func (versionCommand) Help() string {
	return "A cysim that was built in a clone names the commit and its time, and whether files were changed since. go run and go test record no commit, and go install of a module records its version only."
}

// Run implements the command.
func (c versionCommand) Run(_ context.Context, p *command.Process) error {
	v := currentVersion()
	if c.Output == "json" {
		return command.WriteJSON(p.Stdout, v)
	}
	return v.print(p.Stdout)
}

// versionFlag is --version.
type versionFlag bool

// BeforeReset is called by kong before anything else is read.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	if err := currentVersion().print(app.Stdout); err != nil {
		return err
	}
	app.Exit(0)
	return nil
}

// version is the source of a program, as far as the compiler recorded it.
type version struct {
	// Version is the tag or the pseudo-version of the module, (devel) if it was not recorded.
	Version string `json:"version"`
	// Commit is the full hash and Time its time in UTC, as RFC 3339 has it. Tree is clean, or modified if files
	// differed from the commit. All are empty if the program was not built in a clone.
	Commit string `json:"commit,omitempty"`
	Time   string `json:"time,omitempty"`
	Tree   string `json:"tree,omitempty"`
	// Go is the version of the compiler, and System what the program runs on, such as linux/amd64.
	Go     string `json:"go"`
	System string `json:"system"`
}

// currentVersion is the version of this program.
func currentVersion() version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) version {
	v := version{
		Version: cmp.Or(info.Main.Version, "(devel)"), Go: cmp.Or(info.GoVersion, runtime.Version()),
		System: runtime.GOOS + "/" + runtime.GOARCH,
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			v.Commit = setting.Value
		case "vcs.time":
			v.Time = setting.Value
		case "vcs.modified":
			v.Tree = map[string]string{"true": "modified", "false": "clean"}[setting.Value]
		}
	}
	return v
}

// print writes the version in one line.
func (v version) print(w io.Writer) error {
	built := []string{"commit not recorded"}
	if v.Commit != "" {
		built = []string{"commit " + v.Commit}
	}
	if v.Time != "" {
		built = append(built, v.Time)
	}
	if v.Tree == "modified" {
		built = append(built, "modified")
	}
	_, err := fmt.Fprintf(w, "cysim %s (%s) %s %s\n", v.Version, strings.Join(built, ", "), v.Go, v.System)
	return err
}
