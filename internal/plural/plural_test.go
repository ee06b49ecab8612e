package plural_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/internal/plural"
)

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 leaks", 1: "1 leak", 2: "2 leaks"} {
		if got := plural.Count(n, "leak"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
