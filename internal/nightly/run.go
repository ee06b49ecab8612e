package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A slice of tests takes at most about so long, so that a night can end between two.
const sliceTime = 5 * time.Minute

// outcome is the result of a slice.
type outcome struct {
	done, executions int
	log              []byte
	err              error
}

// runStep runs slices of a step until it is complete, it failed, or the time is over.
func (n *night) runStep(ctx context.Context, s step) error {
	next, end, err := n.slices(ctx, s)
	if err != nil {
		return n.record(s, time.Now(), outcome{log: []byte(err.Error()), err: err})
	}
	defer end()
	for left := n.ledger.left(s, n.commit); left > 0 && !n.late() && ctx.Err() == nil; left = n.ledger.left(s, n.commit) {
		began := time.Now()
		o := next(left)
		if ctx.Err() != nil {
			return nil // interrupted: it did not run
		}
		if err := n.record(s, began, o); err != nil {
			return err
		}
	}
	return nil
}

// slices returns a function that runs as much of a step as one slice takes.
func (n *night) slices(ctx context.Context, s step) (next func(left int) outcome, end func(), err error) {
	switch s.kind {
	case kindFuzz:
		return func(left int) outcome { return n.fuzz(ctx, s, left) }, func() {}, nil
	case kindHistory:
		return func(left int) outcome { return n.history(ctx, s, left) }, func() {}, nil
	case kindYear:
		return func(left int) outcome { return n.year(ctx, s, left) }, func() {}, nil
	}
	binary, end, err := compile(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	each := sliceTime // of one run: the first slice is one
	return func(left int) outcome {
		began, count := time.Now(), min(left, max(1, int(sliceTime/each)))
		o := runTests(ctx, s, binary, count)
		each = max(time.Since(began)/time.Duration(count), time.Millisecond)
		return o
	}, end, nil
}

// record writes a slice into the ledger, and keeps the log of a failure.
func (n *night) record(s step, began time.Time, o outcome) error {
	line := slice{at: began, commit: n.commit, step: s.String(), done: o.done, executions: o.executions, seconds: int(time.Since(began).Seconds()), result: passed}
	if o.err != nil {
		name := fmt.Sprintf("%s-%s.log", strings.NewReplacer("/", "_", " ", "-").Replace(s.String()), n.commit)
		line.result = filepath.Join(n.out, name)
		if err := os.WriteFile(line.result, o.log, 0o644); err != nil {
			return err
		}
		o.err = fmt.Errorf("%s: %w; see %s", s, o.err, line.result)
	}
	fmt.Fprintf(n.print, "%s  %-60s %10d executions %6d s  %s\n", began.Format(time.TimeOnly), s, line.executions, line.seconds, line.result)
	return errors.Join(o.err, n.ledger.add(line))
}

// fuzz runs a target. What it finds is in the testdata of its package.
func (n *night) fuzz(ctx context.Context, s step, left int) outcome {
	if !n.until.IsZero() {
		left = min(left, max(1, int(time.Until(n.until).Seconds())))
	}
	// Without a bound, minutes are spent to shorten single inputs of targets whose coverage differs from run to run.
	log, err := combined(exec.CommandContext(ctx, "go", "test", "-run", "^$", "-fuzz", "^"+s.name+"$",
		"-fuzztime", fmt.Sprintf("%ds", left), "-fuzzminimizetime", "100x", "./"+s.pkg))
	return outcome{done: left, executions: lastNumber(fuzzLine, log), log: log, err: err}
}

var fuzzLine = regexp.MustCompile(`(?m)^fuzz: elapsed: .*, execs: (\d+) `)

// lastNumber is the number in the last line that matches, 0 if none does.
func lastNumber(line *regexp.Regexp, log []byte) int {
	lines := line.FindAllSubmatch(log, -1)
	if len(lines) == 0 {
		return 0
	}
	return number(lines[len(lines)-1][1])
}

func number(text []byte) int {
	count, err := strconv.Atoi(string(text))
	if err != nil {
		return 0
	}
	return count
}

// historySlice is how many operations a slice has.
const historySlice = 50_000

var historyLine = regexp.MustCompile(`(?m): (\d+) operations in `)

// history runs a test of histories, with a new seed for each slice. Pictures of rejected
// histories stay in the folder.
func (n *night) history(ctx context.Context, s step, left int) outcome {
	folder, err := filepath.Abs(n.out)
	if err != nil {
		return outcome{done: left, err: err}
	}
	done := min(left, historySlice)
	log, err := combined(exec.CommandContext(ctx, "go", "test", "-v", "-tags", "histories", "-timeout", "2h", "./"+s.pkg, "-run", "^"+s.name+"$",
		"-operations", strconv.Itoa(done), "-seed", strconv.FormatInt(time.Now().UnixNano()>>20, 10), "-out", folder))
	return outcome{done: done, executions: lastNumber(historyLine, log), log: log, err: err}
}

var yearLine = regexp.MustCompile(`: (\d+)h0m0s: (\d+) instances`)

// year runs a cloud for virtual hours, with a new seed, until the night ends.
func (n *night) year(ctx context.Context, s step, left int) outcome {
	args := []string{"test", "-v", "-timeout", "0", "./" + s.pkg, "-run", "^TestYear$", "-year.hosts", "200", "-year.hours", strconv.Itoa(left),
		"-year.period", s.name, "-year.seed", strconv.FormatInt(time.Now().Unix(), 10)}
	if !n.until.IsZero() {
		args = append(args, "-year.limit", max(time.Until(n.until), time.Second).String())
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Env = append(os.Environ(), "GOGC=400")
	log, err := combined(command)
	o := outcome{done: left, log: log, err: err}
	if end := yearLine.FindSubmatch(log); end != nil {
		o.done, o.executions = lastNumber(yearLine, log), number(end[2])
	}
	return o
}

// compile builds the tests of a package once, with the race detector.
func compile(ctx context.Context, s step) (binary string, remove func(), err error) {
	folder, err := os.MkdirTemp("", "nightly")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(folder) }
	binary = filepath.Join(folder, "it.test")
	if log, err := combined(exec.CommandContext(ctx, "go", "test", "-race", "-c", "-o", binary, "./"+s.pkg)); err != nil {
		remove()
		return "", nil, fmt.Errorf("%w: %s", err, log)
	}
	return binary, remove, nil
}

// runTests runs the tests of a step count times with 1 and with 4 processors.
func runTests(ctx context.Context, s step, binary string, count int) outcome {
	selection := "-test.run=" + s.pattern
	if s.skip {
		selection = "-test.skip=" + s.pattern
	}
	command := exec.CommandContext(ctx, binary, selection, "-test.cpu=1,4", fmt.Sprintf("-test.count=%d", count), "-test.timeout=1h")
	command.Dir = s.pkg
	log, err := combined(command)
	return outcome{done: count, executions: 2 * count * s.count, log: log, err: err}
}

func combined(command *exec.Cmd) ([]byte, error) {
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	command.WaitDelay = 10 * time.Second // its children may hold the pipes after an interrupt
	err := command.Run()
	return log.Bytes(), err
}
