package simcloud

import "github.com/gocyborg/gocyborg/sim"

// Run makes a cloud that is closed at the end of the test, from the default model or from
// the one model in its arguments. An error fails the test.
func Run(t sim.TB, models ...Model) *Cloud {
	t.Helper()
	var m Model
	switch len(models) {
	case 0:
	case 1:
		m = models[0]
	default:
		t.Fatalf("simcloud: Run takes one model at most, got %d", len(models))
	}
	c, err := New(t.Context(), m)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("simcloud: close: %v", err)
		}
	})
	return c
}
