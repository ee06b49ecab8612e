package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const passed = "passed"

// slice is a line of the ledger: a part of a step that ran.
type slice struct {
	at           time.Time
	commit, step string
	done         int // seconds, runs, operations or virtual hours
	executions   int
	seconds      int
	result       string // passed, or the log of the failure
}

// ledger lists the slices that ran, in order.
type ledger struct {
	file   string
	slices []slice
}

func readLedger(name string) (ledger, error) {
	l := ledger{file: name}
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		s, err := parseSlice(lines.Text())
		if err != nil {
			return l, fmt.Errorf("%s line %d: %w", name, number, err)
		}
		l.slices = append(l.slices, s)
	}
	return l, lines.Err()
}

func parseSlice(line string) (s slice, err error) {
	fields := strings.Split(line, "\t")
	if len(fields) != 7 {
		return s, fmt.Errorf("got %d fields, want 7", len(fields))
	}
	s.commit, s.step, s.result = fields[1], fields[2], fields[6]
	s.at, err = time.Parse(time.RFC3339, fields[0])
	for i, number := range []*int{&s.done, &s.executions, &s.seconds} {
		n, wrong := strconv.Atoi(fields[3+i])
		*number, err = n, errors.Join(err, wrong)
	}
	return s, err
}

// add writes a slice at once, so that an interrupted night loses nothing.
func (l *ledger) add(s slice) error {
	if err := os.MkdirAll(filepath.Dir(l.file), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(l.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", s.at.Format(time.RFC3339), s.commit, s.step, s.done, s.executions, s.seconds, s.result)
	l.slices = append(l.slices, s)
	return errors.Join(err, file.Close())
}

// left is what a step lacks at a commit. A step that failed at it is complete.
func (l *ledger) left(s step, commit string) int {
	left := s.goal
	for _, done := range l.slices {
		if done.step == s.String() && done.commit == commit {
			if done.result != passed {
				return 0
			}
			left -= done.done
		}
	}
	return max(left, 0)
}

// order returns the steps that are not complete: round-robin over the kinds, least recently run first.
func (l *ledger) order(steps []step, commit string, only *regexp.Regexp) []step {
	last := make(map[string]time.Time)
	for _, s := range l.slices {
		last[s.step] = s.at
	}
	byKind := make(map[kind][]step)
	for _, s := range steps {
		if only.MatchString(s.String()) && l.left(s, commit) > 0 {
			byKind[s.kind] = append(byKind[s.kind], s)
		}
	}
	type placed struct {
		step
		turn int
	}
	var list []placed
	for _, k := range []kind{kindSuspects, kindHistory, kindYear, kindFuzz, kindTests} {
		slices.SortStableFunc(byKind[k], func(a, b step) int { return last[a.String()].Compare(last[b.String()]) })
		for turn, s := range byKind[k] {
			list = append(list, placed{s, turn})
		}
	}
	slices.SortStableFunc(list, func(a, b placed) int { return cmp.Compare(a.turn, b.turn) })
	ordered := make([]step, 0, len(list))
	for _, p := range list {
		ordered = append(ordered, p.step)
	}
	return ordered
}

// table sums up what ran at each commit.
func (l *ledger) table() string {
	type row struct{ step, commit string }
	var order []row
	sums := make(map[row]slice)
	for _, s := range l.slices {
		r := row{s.step, s.commit}
		sum, known := sums[r]
		if !known {
			order, sum.result = append(order, r), passed
		}
		sum.done, sum.executions, sum.seconds = sum.done+s.done, sum.executions+s.executions, sum.seconds+s.seconds
		if s.result != passed {
			sum.result = "failed"
		}
		sums[r] = sum
	}
	slices.SortStableFunc(order, func(a, b row) int { return cmp.Compare(a.step, b.step) })
	var text strings.Builder
	text.WriteString("| step | ran | executions | result | commit |\n|---|---|---|---|---|\n")
	for _, r := range order {
		s := sums[r]
		name, _, _ := strings.Cut(r.step, " ")
		fmt.Fprintf(&text, "| %s | %d %s | %d | %s | %s |\n", r.step, s.done, kind(name).unit(), s.executions, s.result, r.commit)
	}
	return text.String()
}
