package archtest

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	boundsFile = "internal/archtest/testdata/ratchet.txt"
	lowerBy    = "GOCYBORG_UPDATE=1 go test ./internal/archtest"
	noReason   = "REASON"
)

// Bounds are the bounds of the measures.
type Bounds map[Measure]Bound

// Bound is what the count of one measure must equal: its base plus its raises.
type Bound struct {
	// Base is written by [Bounds.Follow] only, and only falls.
	Base int
	// Raises are written by hand, the oldest first.
	Raises []Raise
}

// Raise lets a count grow, with the reason why the module is better for it.
type Raise struct {
	By     int
	Reason string
}

// Sum returns the base plus the raises.
func (b Bound) Sum() int {
	sum := b.Base
	for _, r := range b.Raises {
		sum += r.By
	}
	return sum
}

// lowered returns the bound with a lower sum. The newest raises fall first: a count that is back at
// its base needs no reason.
func (b Bound) lowered(to int) Bound {
	raises := slices.Clone(b.Raises)
	excess := b.Sum() - to
	for excess > 0 && len(raises) > 0 {
		last := &raises[len(raises)-1]
		by := min(excess, last.By)
		excess -= by
		if last.By -= by; last.By == 0 {
			raises = raises[:len(raises)-1]
		}
	}
	return Bound{b.Base - max(excess, 0), raises}
}

// Follow returns the bounds lowered to the counts. It removes the bounds of packages and phrases that no
// longer exist, adds bounds for new ones, and never raises one.
func (b Bounds) Follow(counts Counts) Bounds {
	followed := make(Bounds)
	for m, places := range counts {
		bound, known := b[m]
		switch {
		case known:
			followed[m] = bound.lowered(len(places))
		case !b.has(m.Subject):
			followed[m] = Bound{Base: len(places)}
		}
	}
	return followed
}

// has reports whether any measure is about a subject.
func (b Bounds) has(subject string) bool {
	for m := range b {
		if m.Subject == subject {
			return true
		}
	}
	return false
}

// Check compares counts with their bounds. For a count over its bound it lists the places, beginning with
// the files that changed last.
func (b Bounds) Check(tree fs.FS, counts Counts) []Finding {
	var findings []Finding
	find := func(format string, args ...any) {
		findings = append(findings, Finding{Position: boundsFile, Text: fmt.Sprintf(format, args...)})
	}
	for _, m := range sorted(counts) {
		bound, known := b[m]
		switch count := len(counts[m]); {
		case !known && b.has(m.Subject):
			find("the line %q was removed: restore it", m.Kind+" "+m.Subject)
		case !known:
			find("there is no bound of %s in %s: %s adds it", m.Kind, m.Subject, lowerBy)
		case count < bound.Sum():
			find("%s in %s: %d, the bound is %d: %s lowers it", m.Kind, m.Subject, count, bound.Sum(), lowerBy)
		case count > bound.Sum():
			find("%s in %s: %d, the bound is %d. Avoid the growth, or add this line with a reason:\n%sThe places, beginning with the files that changed last:%s",
				m.Kind, m.Subject, count, bound.Sum(), Bounds{m: {Raises: []Raise{{count - bound.Sum(), noReason}}}}.raises(m), listing(tree, counts[m]))
		}
	}
	for _, m := range sorted(b) {
		if _, ok := counts[m]; !ok {
			find("%s %s no longer exists: %s removes its line", m.Kind, m.Subject, lowerBy)
		}
	}
	return findings
}

const listed = 30 // places in a finding

func listing(tree fs.FS, places []Place) string {
	changed := make(map[string]int64)
	for _, p := range places {
		if info, err := fs.Stat(tree, p.File); err == nil {
			changed[p.File] = info.ModTime().UnixNano()
		}
	}
	places = slices.Clone(places)
	slices.SortStableFunc(places, func(a, b Place) int { return int(min(max(changed[b.File]-changed[a.File], -1), 1)) })
	var text strings.Builder
	for _, p := range places[:min(len(places), listed)] {
		text.WriteString("\n\t" + p.String())
	}
	if more := len(places) - listed; more > 0 {
		fmt.Fprintf(&text, "\n\tand %d more", more)
	}
	return text.String()
}

func sorted[V any](of map[Measure]V) []Measure {
	return slices.SortedFunc(maps.Keys(of), func(a, b Measure) int {
		return strings.Compare(a.Kind+" "+a.Subject, b.Kind+" "+b.Subject)
	})
}

const boundsHeader = `# Bounds of what may fall and not grow: per package, without tests, the exported names, the boolean struct fields and
# the imports of this module's packages; in the whole module, the matches of the patterns of phrases.txt in comments,
# strings and pages. A test of internal/archtest fails unless each count equals its bound.
#
# Only this command writes the lines with a checksum:
#	GOCYBORG_UPDATE=1 go test ./internal/archtest
# It lowers bounds to their counts, adds new packages and never raises a bound. To let a count grow by N, add a line:
#	KIND +N SUBJECT # why the module is better for it
# After a merge keep the lines of both sides and run the command.

`

// String returns the text of the bounds: a line for each measure, and one for each raise below it.
func (b Bounds) String() string {
	var text strings.Builder
	text.WriteString(boundsHeader)
	for _, m := range sorted(b) {
		line := fmt.Sprintf("%-8s %3d  %s", m.Kind, b[m].Base, m.Subject)
		text.WriteString(line + "  " + checkSum(m, b[m].Base) + "\n" + b.raises(m))
	}
	return text.String()
}

func (b Bounds) raises(m Measure) string {
	var text strings.Builder
	for _, r := range b[m].Raises {
		fmt.Fprintf(&text, "%-8s %+3d  %s # %s\n", m.Kind, r.By, m.Subject, r.Reason)
	}
	return text.String()
}

// checkSum shows that a base was not edited by hand.
func checkSum(m Measure, base int) string {
	return fmt.Sprintf("%08x", crc32.ChecksumIEEE(fmt.Append(nil, m.Kind, " ", base, " ", m.Subject)))
}

// ParseBounds reads the text of String. If two merged branches have lowered a base, the lower line counts.
// The error names each line that is invalid.
func ParseBounds(text string) (Bounds, error) {
	bounds := make(Bounds)
	based := make(map[Measure]bool)
	var errs []error
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		m, read, err := parseLine(line)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", boundsFile, i+1, err))
			continue
		}
		bound := bounds[m]
		switch {
		case len(read.Raises) == 0 && based[m]:
			bound.Base = min(bound.Base, read.Base)
		case len(read.Raises) == 0:
			bound.Base, based[m] = read.Base, true
		case !slices.Contains(bound.Raises, read.Raises[0]):
			bound.Raises = append(bound.Raises, read.Raises[0])
		}
		bounds[m] = bound
	}
	if len(based) == 0 {
		errs = append(errs, fmt.Errorf("%s has no bounds: restore it", boundsFile))
	}
	for _, m := range sorted(bounds) {
		if !based[m] {
			errs = append(errs, fmt.Errorf("%s: a raise of %s in %s, which has no bound", boundsFile, m.Kind, m.Subject))
		}
	}
	return bounds, errors.Join(errs...)
}

// parseLine reads a base or a raise.
func parseLine(line string) (Measure, Bound, error) {
	left, reason, isRaise := strings.Cut(line, " # ")
	fields := strings.Fields(left)
	if !isRaise && len(fields) > 0 {
		reason, fields = fields[len(fields)-1], fields[:len(fields)-1]
	}
	if len(fields) < 3 {
		return Measure{}, Bound{}, fmt.Errorf("%q is neither a bound nor a raise: KIND +N SUBJECT # reason", line)
	}
	m := Measure{fields[0], strings.Join(fields[2:], " ")}
	number, err := strconv.Atoi(fields[1])
	switch {
	case err != nil || isRaise != (fields[1][0] == '+') || number < 0:
		return m, Bound{}, fmt.Errorf("%q needs a number: N for a bound, +N for a raise with a reason", line)
	case isRaise && (number == 0 || len(strings.Fields(reason)) < 3 || strings.Contains(reason, noReason)):
		return m, Bound{}, fmt.Errorf("%q needs a reason of at least three words", line)
	case isRaise:
		return m, Bound{Raises: []Raise{{number, strings.TrimSpace(reason)}}}, nil
	case reason != checkSum(m, number):
		return m, Bound{}, fmt.Errorf("%q was edited by hand: restore it and add a line %s +N %s # reason", line, m.Kind, m.Subject)
	}
	return m, Bound{Base: number}, nil
}
