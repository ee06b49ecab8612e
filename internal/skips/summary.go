package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// history holds the results of a test in the stages that have it.
type history struct {
	pkg, test, reason string
	skipped, ran      []string // stages
}

// summarize lists the tests that a stage has skipped. A test that ran in no stage is an error. The files are those of
// stages, by which they are named.
func summarize(to io.Writer, files []string) error {
	tests := make(map[string]*history)
	for _, file := range files {
		if err := readStage(tests, file); err != nil {
			return err
		}
	}
	var list []*history
	for _, h := range tests {
		if len(h.skipped) > 0 {
			list = append(list, h)
		}
	}
	slices.SortFunc(list, func(a, b *history) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test)) })
	if len(list) == 0 {
		_, err := fmt.Fprintln(to, "none")
		return err
	}
	never := 0
	for _, h := range list {
		where := "ran in " + strings.Join(h.ran, ", ")
		if len(h.ran) == 0 {
			never++
			where = "RAN IN NO STAGE"
		}
		if _, err := fmt.Fprintf(to, "%s %s: skipped in %s, %s: %s\n", h.pkg, h.test, strings.Join(h.skipped, ", "), where, cmp.Or(h.reason, "no reason")); err != nil {
			return err
		}
	}
	if never > 0 {
		return fmt.Errorf("%d of %d skipped tests ran in no stage", never, len(list))
	}
	return nil
}

// readStage adds the results of a stage. A test that ran once in it, with any build tags, ran in it.
func readStage(tests map[string]*history, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	stage := strings.TrimSuffix(filepath.Base(file), ".tsv")
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r, err := parseResult(lines.Text())
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if isSeed(r.test) {
			continue
		}
		key := r.pkg + " " + r.test
		if tests[key] == nil {
			tests[key] = &history{pkg: r.pkg, test: r.test}
		}
		tests[key].add(stage, r)
	}
	return lines.Err()
}

func (h *history) add(stage string, r result) {
	switch {
	case r.outcome == ran && !slices.Contains(h.ran, stage):
		h.ran = append(h.ran, stage)
	case r.outcome == skipped && !slices.Contains(h.skipped, stage):
		h.skipped, h.reason = append(h.skipped, stage), cmp.Or(h.reason, r.reason)
	}
}

// isSeed reports whether a sub-test is a seed of a fuzz target, which skips inputs that it is not about.
func isSeed(test string) bool { return strings.HasPrefix(test, "Fuzz") && strings.Contains(test, "/") }
