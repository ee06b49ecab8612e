package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is a line of go test -json; see go doc test2json and go help buildjson.
type event struct {
	Action, Package, Test, Output string
}

// outcome is how a test ended.
type outcome string

const (
	ran     outcome = "ran"
	skipped outcome = "skipped"
)

// result says how a test or sub-test ended in a stage. The reason of a skip is the output of the test.
type result struct {
	outcome
	pkg, test, reason string
}

// line is a line of a file of results.
func (r result) line() string {
	return strings.Join([]string{string(r.outcome), r.pkg, r.test, r.reason}, "\t") + "\n"
}

func parseResult(line string) (result, error) {
	fields := strings.Split(line, "\t")
	if len(fields) != 4 || fields[0] != string(ran) && fields[0] != string(skipped) {
		return result{}, fmt.Errorf("%q is not a result of a test", line)
	}
	return result{outcome(fields[0]), fields[1], fields[2], fields[3]}, nil
}

// convert reads the output of go test -json, and writes its text to one writer and the results to
// another. The text is the output of go test: packages, and failing tests; with verbose, the
// output of go test -v. Lines that are not events are text.
func convert(from io.Reader, text, results io.Writer, verbose bool) error {
	lines := bufio.NewReader(from)
	tests := make(running)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			if err := tests.read(line, text, results, verbose); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// running has the output of the tests that have not ended, by package and name.
type running map[string]map[string][]string

// read takes a line.
func (tests running) read(line string, text, results io.Writer, verbose bool) error {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		_, err := io.WriteString(text, line)
		return err
	}
	if tests[e.Package] == nil {
		tests[e.Package] = make(map[string][]string)
	}
	output := tests[e.Package]
	switch {
	case e.Output != "":
		if e.Test != "" && !strings.HasPrefix(e.Output, "=== ") {
			output[e.Test] = append(output[e.Test], e.Output)
		}
		if !verbose && (e.Test != "" || e.Output == "PASS\n") {
			return nil
		}
		_, err := io.WriteString(text, e.Output)
		return err
	case e.Test == "" && e.Action == "fail" && !verbose: // also of a process that ended in the middle of its tests
		return tests.print(text, e.Package)
	case e.Test == "":
		return nil
	}
	return tests.end(e, text, results, verbose)
}

// end writes the result of a test that has ended, and its output if it has failed.
func (tests running) end(e event, text, results io.Writer, verbose bool) error {
	output := tests[e.Package]
	r := result{pkg: e.Package, test: e.Test}
	switch e.Action {
	case "pass":
		r.outcome = ran
	case "skip":
		r.outcome, r.reason = skipped, reason(output[e.Test])
	case "fail":
		r.outcome = ran
		if !verbose {
			if _, err := io.WriteString(text, strings.Join(output[e.Test], "")); err != nil {
				return err
			}
		}
	default: // run, pause, cont
		return nil
	}
	delete(output, e.Test)
	_, err := io.WriteString(results, r.line())
	return err
}

// print writes the output of the tests of a package that have not ended.
func (tests running) print(text io.Writer, pkg string) error {
	for _, name := range slices.Sorted(maps.Keys(tests[pkg])) {
		if _, err := io.WriteString(text, strings.Join(tests[pkg][name], "")); err != nil {
			return err
		}
	}
	delete(tests, pkg)
	return nil
}

// reason returns the log of a skipped test, in one line.
func reason(output []string) string {
	var words []string
	for _, line := range output {
		if !strings.HasPrefix(strings.TrimSpace(line), "--- SKIP: ") {
			words = append(words, strings.Fields(line)...)
		}
	}
	return strings.Join(words, " ")
}
