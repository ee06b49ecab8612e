package docs_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// pairs finds what a pattern with two groups finds in a file, sorted.
func pairs(t *testing.T, file, pattern string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(data), -1) {
		list = append(list, match[1]+" "+match[2])
	}
	slices.Sort(list)
	return list
}

// The page lists the same unrecognized input of OpenStack's clients as their tests.
func TestUnrecognizedInputOfClientsIsListed(t *testing.T) {
	t.Parallel()
	tested := pairs(t, "../cmd/cysim/clients_unrecognized_test.go", `"([a-z_.]+) ((?:body|query) [^"]+)":\s+true`)
	listed := pairs(t, "dev/record.md", "(?m)^\\| `([a-z_.]+)` \\| `([^`]+)` \\|")
	if diff := cmp.Diff(tested, listed); diff != "" || len(listed) == 0 {
		t.Errorf("record.md (-tested +listed):\n%s", diff)
	}
	operations := simcloud.Run(t).Faults().Operations()
	for _, entry := range listed {
		operation := regexp.MustCompile(`^\S+`).FindString(entry)
		if !slices.Contains(operations, sim.OperationName(operation)) {
			t.Errorf("%s is no operation", operation)
		}
	}
}
