package docs_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// TestTheFaultsPageListsAllWork compares the table of the page with what a cloud knows;
// GOCYBORG_UPDATE=1 writes it.
func TestTheFaultsPageListsAllWork(t *testing.T) {
	t.Parallel()
	const page, begin, end = "faults.md", "<!-- work: generated -->\n", "<!-- end of work -->"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	have, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no table between its marks", page)
	}
	want := "| operation | subject | actions |\n|---|---|---|\n"
	for _, o := range simcloud.Run(t, simcloud.Model{Hosts: []simcloud.Host{}}).Faults().Describe() {
		if slices.Equal(o.Actions, fault.NewSet("request").Describe()[0].Actions) {
			continue
		}
		names := make([]string, len(o.Actions))
		for i, action := range o.Actions {
			names[i] = string(action)
		}
		want += fmt.Sprintf("| `%s` | %s | %s |\n", o.Name, o.Subject, strings.Join(names, ", "))
	}
	if have == want {
		return
	}
	if os.Getenv(update) != "" {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the table of work (-page +cloud):\n%s", cmp.Diff(have, want))
}

// TestTheFaultsPageExplainsEveryAction; the tests of the faults, which the page of the tests names, exist.
func TestTheFaultsPageExplainsEveryAction(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("faults.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range append(fault.NewSet("request").Describe()[0].Actions, fault.Duplicate, fault.Reorder, fault.Reboot) {
		if !strings.Contains(string(data), "\n| `"+string(action)+"` | ") {
			t.Errorf("action %s is not explained", action)
		}
	}
	sources := testSources(t)
	for _, code := range codeIn(t, "dev/testing.md") {
		if strings.HasPrefix(code, "Test") && !strings.Contains(sources, "func "+code+"(t *testing.T)") {
			t.Errorf("there is no test %s", code)
		}
	}
}

// TestTheRulesOnTheFaultsPageAreTaken by a cloud, those in its tables one by one.
func TestTheRulesOnTheFaultsPageAreTaken(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, simcloud.Model{Hosts: []simcloud.Host{}})
	lists := snippets(t, "faults.md", "json")
	for _, code := range codeIn(t, "faults.md") {
		if strings.HasPrefix(code, `{"operation"`) {
			lists = append(lists, "["+code+"]")
		}
	}
	if len(lists) < 18 {
		t.Errorf("found only %d rules", len(lists))
	}
	for _, list := range lists {
		rules, err := fault.ParseRules([]byte(list))
		if err == nil {
			err = cloud.Faults().Set(rules...)
		}
		if err != nil {
			t.Errorf("%s: %v", list, err)
		}
	}
}
