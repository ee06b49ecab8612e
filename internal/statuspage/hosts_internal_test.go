package statuspage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnitsOfAnInventory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		inventory inventory
		want      []string
	}{
		{inventory{Total: 3, Used: 1}, []string{"used", "free", "free"}},
		{inventory{Total: 2, Reserved: 2}, []string{"reserved", "reserved"}},
		{inventory{Total: 2, Used: 2, Reserved: 2}, []string{"used", "used"}},
		{inventory{Total: 1, Used: 5}, []string{"used"}},
		{inventory{}, []string{}},
		{inventory{Total: 33}, nil},
		{inventory{Total: -1}, nil},
	} {
		if diff := cmp.Diff(tt.want, tt.inventory.Units()); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.inventory, diff)
		}
	}
}
