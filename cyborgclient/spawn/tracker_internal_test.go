package spawn

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// What was deleted is remembered for some minutes, and not more than a bound.
func TestDeletedARQsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d deletedARQs
		d.add([]string{"first", "first"})
		time.Sleep(deletedLifetime / 2)
		d.add([]string{"first", "second"})
		if !d.has("first") || !d.has("second") || d.has("third") {
			t.Error("want the first and the second")
		}
		time.Sleep(deletedLifetime / 2)
		d.add(nil)
		if d.has("first") || !d.has("second") || len(d.since) != 1 {
			t.Errorf("want the second only, got %v", d.since)
		}
		for i := range 2 * maxDeleted {
			d.add([]string{strconv.Itoa(i)})
		}
		if len(d.since) != maxDeleted || len(d.oldest) != maxDeleted || !d.has(strconv.Itoa(2*maxDeleted-1)) {
			t.Errorf("%d are remembered, want the last %d", len(d.since), maxDeleted)
		}
	})
}

// A list that was read before an attempt bound its ARQ and ended still shows it as nobody's.
func TestAnARQThatIsUsedDuringASearchIsNotAdopted(t *testing.T) {
	t.Parallel()
	var tr tracker
	tr.beginSearch()
	tr.add("bound")
	tr.remove("bound")
	if tr.adopt("bound", 0) {
		t.Error("the ARQ of the attempt that has ended is adopted")
	}
	if !tr.adopt("lost", 0) {
		t.Error("an ARQ that nobody has used is not adopted")
	}
	tr.endSearch()
}
