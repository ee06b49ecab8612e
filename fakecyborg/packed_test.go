package fakecyborg

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
)

func TestPackedInformationIsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[a-z0-9_:."<&]{0,6}`), rapid.String())
		info := driver.Info(rapid.MapOfN(text, text, 0, 6).Draw(t, "info"))
		p := pack(info)
		if diff := cmp.Diff(info, p.info()); diff != "" {
			t.Errorf("unpacked (-want +got):\n%s", diff)
		}
		if got, want := p.key(), info.Key(); got != want {
			t.Errorf("key %q, want %q", got, want)
		}
	})
}
