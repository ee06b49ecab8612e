package tables

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/sim"
)

func TestALineMayBeSoLongAndADocumentAnyLength(t *testing.T) {
	t.Parallel()
	const row = `{"n":"0123456789"}`
	lines := &lineReader{in: bufio.NewReaderSize(strings.NewReader(strings.Repeat(row+"\n", 1000)+row+strings.Repeat("x", 100)), 16), longest: len(row) + 1}
	for range 1000 {
		if got, err := lines.text(); err != nil || string(got) != row {
			t.Fatalf("line %d: %s, error %v", lines.n, got, err)
		}
	}
	if _, err := lines.text(); !errors.Is(err, sim.ErrRecords) || !strings.Contains(err.Error(), "line 1001 is longer than 19 bytes") {
		t.Errorf("a line that is too long: %v", err)
	}
	if _, err := (&lineReader{in: bufio.NewReader(strings.NewReader("")), longest: 1}).read(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

// TestARecordIsCutAsItIsDecoded compares what is cut out of a line with what is decoded.
func TestARecordIsCutAsItIsDecoded(t *testing.T) {
	t.Parallel()
	text := rapid.SampledFrom([]string{`"t"`, `"a.b"`, `""`, `"é"`, `"\u0061"`, `"\""`, `"\\"`, `1`, `null`, "\"\x01\""})
	row := rapid.SampledFrom([]string{`{}`, `{"row":{"x":"}"}}`, `{"x":1},"key":"k"`, `[1]`, `null`, `{"x":`, ``, `{}}`, `{} {}`, `{}}{"a":{}`})
	forms := rapid.SampledFrom([]string{
		`{"table":%s,"key":%s,"row":%s}`, `{"table": %s,"key":%s,"row":%s}`, `{"key":%[2]s,"table":%[1]s,"row":%s}`,
		`{"table":%s,"key":%s,"row":%s} `, `{"table":%s,"key":%s,"row":%s`, `{"table":%s,"key":%s,"row":%s}}`, `{"table":%s,"key":%s,"rows":%s}`,
	})
	rapid.Check(t, func(t *rapid.T) {
		line := fmt.Sprintf(forms.Draw(t, "form"), text.Draw(t, "table"), text.Draw(t, "key"), row.Draw(t, "row"))
		lines := &lineReader{in: bufio.NewReader(strings.NewReader(line)), longest: maxLine}
		got, err := lines.record()
		var want sim.Record
		wantErr := lines.recordOf([]byte(strings.TrimSpace(line))).Decode(&want)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%s: error %v, want %v", line, err, wantErr)
		}
		if diff := cmp.Diff(want, got); diff != "" && err == nil {
			t.Fatalf("%s (-want +got):\n%s", line, diff)
		}
	})
}
