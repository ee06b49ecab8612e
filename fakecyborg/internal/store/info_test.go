package store_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// TestInfoIsWhatJSONSays compares the information of a handle with what encoding/json reads.
func TestInfoIsWhatJSONSays(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9a-f:,{}"\\<]*`))
	rapid.Check(t, func(t *rapid.T) {
		info := store.Info(driver.Info(rapid.MapOfN(text, text, 0, 5).Draw(t, "info")).Key())
		var want driver.Info
		if err := json.Unmarshal([]byte(info), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, info.Map()); diff != "" {
			t.Fatalf("information of %s (-want +got):\n%s", info, diff)
		}
	})
}
