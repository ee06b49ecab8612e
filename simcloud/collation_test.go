package simcloud_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestOneCollationIsForAllServices(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		model             simcloud.Model
		cyborg, placement bool // accept a name in capitals beside the other
	}{
		{simcloud.Model{}, false, false},
		{simcloud.Model{Collation: sim.CollationBinary}, true, true},
		{simcloud.Model{Cyborg: fakecyborg.Config{Collation: sim.CollationBinary}}, true, false},
		{simcloud.Model{Collation: sim.CollationBinary, Placement: placementsim.Config{Collation: sim.CollationMySQL}}, true, false},
	} {
		cloud := simcloud.Run(t, tt.model)
		_, err := cloud.Cyborg.CreateDeviceProfile("GPU", []map[string]string{{"resources:PGPU": "1"}})
		if (err == nil) != tt.cyborg {
			t.Errorf("%+v: device profile GPU next to gpu: %v", tt.model, err)
		}
		_, err = cloud.Placement.CreateProvider(placementsim.ResourceProvider{Name: "CN0"})
		if (err == nil) != tt.placement {
			t.Errorf("%+v: provider CN0 next to cn0: %v", tt.model, err)
		}
	}
	if err := (simcloud.Model{Collation: "latin1"}).Validate(); !errors.Is(err, simcloud.ErrModel) || !strings.Contains(err.Error(), "collation") {
		t.Errorf("error %v, want one about the collation", err)
	}
}
