package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/alecthomas/kong"
)

// The exit statuses of the command.
const (
	exitFailed       = 1
	exitBadInput     = 2
	exitClaimedTwice = 3 // of discover
	exitLeaks        = 9
)

// cli is the command line.
type cli struct {
	Serve     serveCommand     `cmd:"" help:"Serve a whole cloud: Keystone, Placement, Cyborg and Nova's stand-in on one port."`
	Placement placementCommand `cmd:"" help:"Serve Placement alone, at the root of its port."`
	Cyborg    cyborgCommand    `cmd:"" help:"Serve Cyborg alone, at the root of its port, reporting to a Placement elsewhere."`
	Discover  discoverCommand  `cmd:"" help:"Show which devices of this machine Cyborg's drivers find, and which they leave out and why."`
	Unflatten unflattenCommand `cmd:"" help:"Take the devices of flat hosts off the compute providers of a Placement, so that the next report builds the tree."`
	Check     checkCommand     `cmd:"" help:"Ask a running cloud what leaked. Exit status 9: something did."`
	Load      loadCommand      `cmd:"" help:"Drive whole spawns and deletes, and tell rates, latencies and leaks."`
	Lint      lintCommand      `cmd:"" help:"Tell what is wrong with flavors and device profiles before they are used."`
	Import    importCommand    `cmd:"" help:"Make a state for serve of what a real cloud lists of Placement and Cyborg."`
	State     stateCommand     `cmd:"" help:"Look at the states that serve --state keeps."`
	Version   versionCommand   `cmd:"" help:"Print the version."`
}

// process is what a command has of its surroundings.
type process struct {
	ctx    context.Context // ends with the first signal
	stdout io.Writer
	stderr io.Writer
	log    *slog.Logger
}

// errBadInput marks errors that the user mends by another flag or file.
var errBadInput = errors.New("bad input")

// badInput marks an error; its text stays as it is.
func badInput(err error) error { return inputError{err} }

type inputError struct{ error }

// Unwrap keeps the cause and the mark.
func (e inputError) Unwrap() []error { return []error{e.error, errBadInput} }

// run parses the arguments, runs the command until the context ends, and
// returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var line cli
	helped := false
	parser, err := kong.New(&line,
		kong.Name("cysim"),
		kong.Description("Simulated OpenStack clouds with accelerators, for tests and trials."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.PostBuild(describeFlags),
	)
	if err != nil {
		return failed(stderr, err) // the grammar itself; a test keeps it whole
	}
	parsed, err := parser.Parse(args)
	switch {
	case helped:
		return 0
	case err != nil:
		return failed(stderr, badInput(err))
	}
	err = parsed.Run(&process{ctx: ctx, stdout: stdout, stderr: stderr, log: slog.New(slog.NewTextHandler(stderr, nil))})
	if err != nil && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		return failed(stderr, err)
	}
	return 0 // also when the signal came before the server was up
}

// failed tells the cause in one line and returns the status for it.
func failed(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "cysim: %s\n", strings.Join(strings.Fields(err.Error()), " "))
	switch {
	case errors.Is(err, errBadInput):
		return exitBadInput
	case errors.Is(err, errLeaks):
		return exitLeaks
	case errors.Is(err, errClaimedTwice):
		return exitClaimedTwice
	}
	return exitFailed
}
