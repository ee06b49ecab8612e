package spawn

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/requestspec"
)

// columns are the first cells of an operation in docs/operations.md.
func (r rule) columns(op Operation) string {
	profile, port := "yes", "yes"
	switch {
	case !r.profile:
		profile = "blocked"
	case r.minService > 0 && r.minRPC > 0:
		profile = fmt.Sprintf("service %d, RPC 5.%d", r.minService, r.minRPC)
	case r.minService > 0:
		profile = fmt.Sprintf("service %d", r.minService)
	}
	if !r.port {
		port = "blocked"
	}
	return fmt.Sprintf("%s | %s | %s", op, profile, port)
}

func TestThePageOfOperationsHasEveryRule(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.*? \| (?:yes|blocked|service .*?) \| (?:yes|blocked)) \| \S.* \| \S.* \|$`).FindAllStringSubmatch(string(page), -1) {
		got[row[1]] = true
	}
	want := map[string]bool{}
	for op, rule := range rules {
		want[rule.columns(op)] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations of docs/operations.md (-want +got):\n%s", diff)
	}
}

func TestNoOperationIsBlockedWithoutAccelerators(t *testing.T) {
	t.Parallel()
	for op := range rules {
		plain := Instance{UUID: "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001", Flavor: requestspec.Flavor{VCPUs: 1, MemoryMB: 1}, ServiceVersion: 1, RPC: 1}
		if err := Permit(op, plain); err != nil {
			t.Errorf("%s is blocked without accelerators: %v", op, err)
		}
	}
	if err := Permit("fly", Instance{}); !errors.Is(err, ErrRequest) {
		t.Errorf("an unknown operation: %v, want ErrRequest", err)
	}
}
