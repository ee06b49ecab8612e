package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheProcessIsNoDaemon(t *testing.T) {
	t.Parallel()
	args := []string{"serve", "--daemon", "--log", "file", "--daemon=true", "--daemon=1", "--daemons"}
	if diff := cmp.Diff([]string{"serve", "--log", "file", "--daemons"}, withoutFlag(args)); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}
