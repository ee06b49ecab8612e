// Skips shows what tests are skipped in all stages of .ci/run, and so never ran.
//
// It reads the output of go test -json, prints it as go test prints it without -json, and appends the results to a file:
//
//	go test -json ./... | go run ./internal/skips --to results/test.tsv
//
// It then lists the tests that a stage has skipped, with their reasons, and exits with 1 if one ran in no stage:
//
//	go run ./internal/skips --summary results/*.tsv
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("skips", flag.ContinueOnError)
	to := flags.String("to", "", "append the results of go test -json on the standard input to this file")
	verbose := flags.Bool("v", false, "print what passing tests print, as go test -v does")
	summary := flags.Bool("summary", false, "list the skipped tests of these files, one for each stage")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case *summary:
		return summarize(stdout, flags.Args())
	case *to == "":
		return errors.New("--to or --summary is missing")
	}
	if err := os.MkdirAll(filepath.Dir(*to), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(*to, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(convert(stdin, stdout, file, *verbose), file.Close())
}
