package drivertest

import (
	"context"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/mdev"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// idle is a driver that makes or removes no mediated device, and reports success.
type idle struct {
	*mdev.Driver
	makes, removes bool
}

func (d idle) CreateMdev(ctx context.Context, m driver.Mdev) error {
	if d.makes {
		return d.Driver.CreateMdev(ctx, m)
	}
	return m.Validate()
}

func (d idle) RemoveMdev(ctx context.Context, m driver.Mdev) error {
	if d.removes {
		return d.Driver.RemoveMdev(ctx, m)
	}
	return m.Validate()
}

func TestADriverThatMakesNothingFails(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]idle{
		"working": {makes: true, removes: true}, "create": {removes: true}, "remove": {makes: true}, "both": {},
	} {
		tree := generate(t, sysfs.Description{MdevParents: []sysfs.MdevParent{{
			Name: "mtty", Types: []sysfs.MdevType{{Type: "mtty-2", Name: "Dual port serial", AvailableInstances: 2}},
		}}})
		var err error
		d.Driver, err = mdev.New(mdev.Config{Host: "compute1", EnabledMdevTypes: []mdev.Type{{Name: "mtty-2", Parents: []string{"mtty"}}}}, tree)
		if err != nil {
			t.Fatal(err)
		}
		faults := mdevFaults(t, d, tree)
		if (len(faults) == 0) != (d.makes && d.removes) || len(faults) > 0 && !strings.Contains(faults[0], "there are the mediated devices") {
			t.Errorf("%s: faults %q", name, faults)
		}
	}
}
