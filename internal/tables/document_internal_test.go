package tables

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/sim"
)

func TestALineMayBeSoLongAndADocumentAnyLength(t *testing.T) {
	t.Parallel()
	const row = `{"n":"0123456789"}`
	lines := &lineReader{in: bufio.NewReaderSize(strings.NewReader(strings.Repeat(row+"\n", 1000)+row+strings.Repeat("x", 100)), 16), longest: len(row) + 1}
	var into struct{ N string }
	for range 1000 {
		if err := lines.next(&into); err != nil || into.N != "0123456789" {
			t.Fatalf("line %d: %+v, error %v", lines.n, into, err)
		}
	}
	if err := lines.next(&into); !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), "line 1001 is longer than 19 bytes") {
		t.Errorf("a line that is too long: %v", err)
	}
	if _, err := (&lineReader{in: bufio.NewReader(strings.NewReader("")), longest: 1}).read(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}
