package differential_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/differential"
)

const (
	page      = "../../docs/dev/differential.md"
	listBegin = "<!-- known differences, made by the stage differential -->\n"
	listEnd   = "\n<!-- end of known differences -->"
)

// listOf splits the page at its list.
func listOf(t *testing.T) (before, list, after string) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(data), listBegin)
	list, after, ends := strings.Cut(rest, listEnd)
	if !begins || !ends {
		t.Fatalf("%s has no list of known differences", page)
	}
	return before + listBegin, list, listEnd + after
}

// The page has the names and reasons of the tables. GOCYBORG_UPDATE=1 writes them, and keeps the counts.
func TestThePageListsTheKnownDifferences(t *testing.T) {
	t.Parallel()
	before, list, after := listOf(t)
	want := differential.Lists(differential.ParseLists(list))
	if os.Getenv("GOCYBORG_UPDATE") != "" {
		if err := os.WriteFile(page, []byte(before+want+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("the list of %s differs from the tables; GOCYBORG_UPDATE=1 go test ./internal/differential writes it (-tables +page):\n%s", page, diff)
	}
}

// The stage differential calls it with the directory of its counts in GOCYBORG_DIFFERENTIAL. GOCYBORG_UPDATE=1 writes the
// page, too.
func TestTheListOfADifferentialRun(t *testing.T) {
	directory := os.Getenv("GOCYBORG_DIFFERENTIAL")
	if directory == "" { // no run: the counts of the page
		directory = t.TempDir()
		_, list, _ := listOf(t)
		for _, report := range differential.ParseLists(list) {
			if err := report.Write(directory); err != nil {
				t.Fatal(err)
			}
		}
	}
	reports, err := differential.ReadReports(directory)
	if err != nil || len(reports) != len(differential.Tables()) {
		t.Fatalf("%d reports of %d tables: %v", len(reports), len(differential.Tables()), err)
	}
	list := differential.Lists(reports)
	if err := os.WriteFile(filepath.Join(directory, "differential.md"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("GOCYBORG_UPDATE") != "" && os.Getenv("GOCYBORG_DIFFERENTIAL") != "" {
		before, _, after := listOf(t)
		if err := os.WriteFile(page, []byte(before+list+after), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestClassesHaveNamesAndReasons(t *testing.T) {
	t.Parallel()
	for _, table := range differential.Tables() {
		if _, err := differential.NewJudge(table); err != nil {
			t.Errorf("%s: %v", table.Name, err)
		}
		seen := make(map[string]bool)
		for _, class := range table.Classes {
			if class.Name == "" || class.Why == "" || len(class.Of) == 0 || seen[class.Name] {
				t.Errorf("%s: the class %q lacks a name of its own, a reason or a pattern", table.Name, class.Name)
			}
			seen[class.Name] = true
			for _, pattern := range class.Of {
				if pattern.Part == "" && pattern.Mark == "" {
					t.Errorf("%s: a pattern of %q matches any part", table.Name, class.Name)
				}
			}
		}
	}
}

func TestADifferenceWithoutAClassIsUnlisted(t *testing.T) {
	t.Parallel()
	judge, err := differential.NewJudge(differential.Table{Name: "T", Classes: []differential.Class{
		{Name: "first", Why: "w", Of: []differential.Pattern{{Request: "^GET /a", Part: "^status$", Real: "^500", Ours: "^400"}}},
		{Name: "marked", Why: "w", Of: []differential.Pattern{{Part: "^body", Mark: "m"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	judge.Add([]differential.Difference{
		{Request: "GET /a\nX: y", Part: "status", Real: "500 x", Ours: "400 y"},
		{Request: "GET /b", Part: "status", Real: "500 x", Ours: "400 y"},
		{Request: "GET /a", Part: "body .x", Marks: []string{"m"}},
		{Request: "GET /a", Part: "body .x"},
	})
	judge.Add(nil)
	want := differential.Report{Table: "T", Requests: 2, Unlisted: 2, Counts: map[string]int{"first": 1, "marked": 1}}
	if diff := cmp.Diff(want, judge.Report()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReportsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	report := differential.Report{Table: "Cyborg with upstream quirks", Requests: 3, Counts: map[string]int{"a | b": 2}}
	if err := report.Write(directory); err != nil {
		t.Fatal(err)
	}
	got, err := differential.ReadReports(directory)
	if diff := cmp.Diff([]differential.Report{report}, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
