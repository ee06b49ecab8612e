package simhttp_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

func TestTimesThatCannotStandInJSONAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-03-04T05:06:07Z":      "<nil>",
		"9999-12-31T23:59:59Z":      "<nil>",
		"9999-12-31T23:59:59-00:01": "at is in the year 10000",
		"0000-01-01T00:00:00+00:01": "at is in the year -1",
		"0001-01-01T00:00:00Z":      "at is missing",
	} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		if err := simhttp.CheckTime("at", at); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
