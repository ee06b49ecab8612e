package spelling_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/internal/spelling"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"accelerator.arq.bind", "accelerator.arq.list", "placement.allocations.put"}
	for word, want := range map[string]string{
		"accelerator.arq.bnd": "accelerator.arq.bind", "Accelerator_ARQ_list": "accelerator.arq.list", "bind": "", "": "",
	} {
		if got := spelling.Nearest(word, known); got != want {
			t.Errorf("nearest to %q: got %q, want %q", word, got, want)
		}
	}
}
