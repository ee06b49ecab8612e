package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A package with a test that starts a process two calls away, one that does nothing, and a fuzz target.
const exampleTests = `package p

func TestMain(m *testing.M) {}
func TestPlain(t *testing.T) { helper() }
func TestProcess(t *testing.T) { new(fixture).start() }
func TestClock(t *testing.T) { sim.NewManualClock(now) }
func TestKilledTwice(t *testing.T) {}
func Testify(t *testing.T) {}
func helper() {}
func (f fixture) start() { spawn() }
func spawn() { exec.Command("x") }
func FuzzIt(f *testing.F) {}
`

func TestStepsOfAPackage(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a_test.go"), []byte(exampleTests), 0o600); err != nil {
		t.Fatal(err)
	}
	p := testPackage{Dir: folder, ImportPath: "example.org/m/p", XTestGoFiles: []string{"a_test.go"}}
	p.Module.Path = "example.org/m"
	got, err := p.steps(limits{fuzz: time.Minute, suspects: 200, tests: 20})
	if err != nil {
		t.Fatal(err)
	}
	const suspects = "^(TestProcess|TestClock|TestKilledTwice)$"
	want := []step{
		{kind: kindFuzz, pkg: "p", name: "FuzzIt", goal: 60},
		{kind: kindSuspects, pkg: "p", pattern: suspects, count: 3, goal: 200},
		{kind: kindTests, pkg: "p", pattern: suspects, skip: true, count: 1, goal: 20},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestEachStepIsInOnePart(t *testing.T) {
	t.Parallel()
	steps := []step{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}
	var got []step
	for _, part := range []string{"1/3", "2/3", "3/3"} {
		mine, err := shard(steps, part)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, mine...)
	}
	if want := []step{steps[0], steps[3], steps[1], steps[2]}; !cmp.Equal(want, got, cmp.AllowUnexported(step{})) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, bad := range []string{"", "0/1", "2/1", "1", "1/2x", "a/b"} {
		if _, err := shard(steps, bad); err == nil {
			t.Errorf("--shard %q is accepted", bad)
		}
	}
}

// A run goes on where the last one ended, also one that was killed.
func TestTheLedgerKnowsWhatIsLeft(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "out", "ledger.tsv")
	l, err := readLedger(file)
	if err != nil {
		t.Fatal(err)
	}
	steps := []step{
		{kind: kindFuzz, pkg: "p", name: "FuzzA", goal: 60}, {kind: kindFuzz, pkg: "p", name: "FuzzB", goal: 60}, {kind: kindFuzz, pkg: "p", name: "FuzzC", goal: 60},
		{kind: kindTests, pkg: "p", goal: 20}, {kind: kindSuspects, pkg: "p", goal: 200},
	}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, s := range []slice{
		{commit: "old", step: "fuzz p FuzzB", done: 60, executions: 7, result: passed},
		{commit: "new", step: "fuzz p FuzzA", done: 40, executions: 100, seconds: 41, result: passed},
		{commit: "new", step: "fuzz p FuzzC", done: 1, executions: 5, seconds: 1, result: "out/fuzz.log"},
		{commit: "new", step: "suspects p", done: 120, executions: 240, seconds: 9, result: passed},
		{commit: "new", step: "suspects p", done: 80, executions: 160, seconds: 6, result: passed},
	} {
		s.at = at.Add(time.Duration(i) * time.Hour)
		if err := l.add(s); err != nil {
			t.Fatal(err)
		}
	}
	read, err := readLedger(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l, read, cmp.AllowUnexported(ledger{}, slice{})); diff != "" {
		t.Errorf("ledger (-written +read):\n%s", diff)
	}
	if got := read.left(steps[0], "new"); got != 20 {
		t.Errorf("%d seconds of FuzzA remain, want 20", got)
	}
	// FuzzB ran longest ago, FuzzC failed, the suspects are complete.
	want := []step{steps[1], steps[3], steps[0]}
	if diff := cmp.Diff(want, read.order(steps, "new", regexp.MustCompile("")), cmp.AllowUnexported(step{})); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if got := read.order(steps, "new", regexp.MustCompile("^tests")); len(got) != 1 {
		t.Errorf("--only: got %v", got)
	}
	const table = `| step | ran | executions | result | commit |
|---|---|---|---|---|
| fuzz p FuzzA | 40 s | 100 | passed | new |
| fuzz p FuzzB | 60 s | 7 | passed | old |
| fuzz p FuzzC | 1 s | 5 | failed | new |
| suspects p | 200 runs | 400 | passed | new |
`
	if diff := cmp.Diff(table, read.table()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(file, []byte("2026-01-01T00:00:00Z\tnew\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readLedger(file); err == nil {
		t.Error("a broken ledger is read")
	}
}

func TestExecutionsAreReadFromTheLastLine(t *testing.T) {
	t.Parallel()
	const log = `fuzz: elapsed: 0s, gathering baseline coverage: 0/12 completed
fuzz: elapsed: 0s, gathering baseline coverage: 12/12 completed, now fuzzing with 2 workers
fuzz: elapsed: 3s, execs: 9043 (3013/sec), new interesting: 8 (total: 20)
fuzz: elapsed: 6s, execs: 12003 (986/sec), new interesting: 9 (total: 21)
PASS
`
	if got := lastNumber(fuzzLine, []byte(log)); got != 12003 {
		t.Errorf("got %d, want 12003", got)
	}
	if got := lastNumber(fuzzLine, []byte("FAIL")); got != 0 {
		t.Errorf("without a line: got %d", got)
	}
}
