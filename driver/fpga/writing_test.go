package fpga_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// watched calls written when an image is on the card, and before that is known.
type watched struct {
	*fpga.Intel
	written func() error
}

// Program implements driver.Programmer.
func (w *watched) Program(ctx context.Context, path driver.ControlPath, deployable string, image []byte) error {
	return errors.Join(w.Intel.Program(ctx, path, deployable, image), w.written())
}

// A report while an image is being written reads a region of which it is not known yet what was written.
func TestAReportWhileARegionIsWrittenChangesNothing(t *testing.T) {
	t.Parallel()
	named := map[string]string{"accel:function_id": id("c")}
	for name, tt := range map[string]struct {
		properties map[string]string
		fails      error
		report     bool
		bitstream  string
	}{
		"without a function":           {nil, nil, false, imageID},
		"without a function, reported": {nil, nil, true, imageID},
		"with a function":              {named, nil, false, imageID},
		"with a function, reported":    {named, nil, true, imageID},
		"failed":                       {nil, errors.New("interrupted"), false, ""},
		"failed, reported":             {nil, errors.New("interrupted"), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := drivertest.Tree(t, intelCard(pf, 0, "2", "bb", 2))
			d := &watched{Intel: newIntel(t, fpga.Config{}, tree).(*fpga.Intel)}
			w := newWorld(t, fakecyborg.ModeTree, []simcloud.Image{{ID: imageID, Properties: tt.properties, Data: string(gbs(t, "2", "c"))}},
				map[string]map[string]string{"p": {"resources:FPGA": "1", "accel:bitstream_id": imageID}}, d)
			d.written = func() error {
				if tt.report {
					w.report()
				}
				return tt.fails
			}
			if _, err := w.spawn(instanceA, "p"); (err != nil) != (tt.fails != nil) {
				t.Fatal(err)
			}
			for range 2 {
				w.report()
			}
			region := w.cloud.Cyborg.Deployables()[0]
			if got := w.functions(region.ProviderUUID); !slices.Equal(got, []string{"CUSTOM_FPGA_FUNCTION_ID_INTEL_" + traitID("c")}) || region.BitstreamID != tt.bitstream {
				t.Errorf("Placement has the functions %v, and the region bitstream %q", got, region.BitstreamID)
			}
		})
	}
}
