package spawn_test

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// pageRow is a rule as a row of docs/operations.md.
func pageRow(r spawn.Rule) string {
	profile, port := "yes", "yes"
	switch {
	case !r.Profile:
		profile = "blocked"
	case r.MinService > 0 && r.MinRPC > 0:
		profile = fmt.Sprintf("service %d, RPC 5.%d", r.MinService, r.MinRPC)
	case r.MinService > 0:
		profile = fmt.Sprintf("service %d", r.MinService)
	}
	if !r.Port {
		port = "blocked"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |", r.Operation, profile, port, cmp.Or(r.Effect, "-"), cmp.Or(r.Ours, "the same"))
}

func TestThePageOfOperationsIsTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, rule := range spawn.Rules() {
		want = append(want, pageRow(rule))
	}
	if table := strings.Join(want, "\n"); !strings.Contains(string(page), table) {
		t.Errorf("docs/operations.md has not the table of spawn.Rules:\n%s", table)
	}
}
