package spawn

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A cloud whose candidates are all excluded is not asked for all that there are.
func TestTheLastLimitOfAQuery(t *testing.T) {
	t.Parallel()
	a := &Attempt{flow: &Flow{process: &process{config: Config{MaxAttempts: 3}}}}
	a.Spec.Limit = 1000
	var limits []int
	for limit := a.nextLimit(); limit > a.asked; limit = a.nextLimit() {
		a.asked = limit
		limits = append(limits, limit)
	}
	if diff := cmp.Diff([]int{10, 40, 160, 640, 1000, 4000, 16000, 64000}, limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}
