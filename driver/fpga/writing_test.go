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

// A report during a programming reads a region whose new content is not known yet.
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
			d := &watched{Intel: newIntel(t, fpga.Config{}, tree)}
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

// The agent believes a driver that reads regions, even if the next image has the region's first
// function, or the function of the previous image.
func TestTheFunctionOfTheNextImageIsRead(t *testing.T) {
	t.Parallel()
	const next = "cccccccc-0000-4000-8000-000000000002"
	for _, function := range []string{"b", "c", "d"} {
		tree := drivertest.Tree(t, intelCard(pf, 0, "2", "bb", 2))
		images := []simcloud.Image{{ID: imageID, Data: string(gbs(t, "2", "c"))}, {ID: next, Data: string(gbs(t, "2", function))}}
		w := newWorld(t, fakecyborg.ModeTree, images, map[string]map[string]string{
			imageID: {"resources:FPGA": "1", "accel:bitstream_id": imageID}, next: {"resources:FPGA": "1", "accel:bitstream_id": next},
		}, newIntel(t, fpga.Config{}, tree))
		region := w.cloud.Cyborg.Deployables()[0].ProviderUUID
		for _, step := range []struct{ image, function string }{{imageID, "c"}, {next, function}, {imageID, "c"}} {
			w.mustSpawn(instanceA, step.image)
			w.report()
			if got := w.functions(region); !slices.Equal(got, []string{"CUSTOM_FPGA_FUNCTION_ID_INTEL_" + traitID(step.function)}) || w.bitstream(region) != step.image {
				t.Errorf("%s: Placement has the functions %v, and the region bitstream %s", step.function, got, w.bitstream(region))
			}
			w.release(instanceA)
		}
	}
}

// A region that was written in part has no function, although its driver still shows the previous function.
func TestARegionWrittenInPartHasNoFunction(t *testing.T) {
	t.Parallel()
	tree := drivertest.Tree(t, intelCard(pf, 0, "2", "bb", 2))
	const next = "cccccccc-0000-4000-8000-000000000002"
	images := []simcloud.Image{{ID: imageID, Data: string(gbs(t, "2", "c"))}, {ID: next, Data: string(gbs(t, "2", "c"))}}
	d := &watched{Intel: newIntel(t, fpga.Config{}, tree), written: func() error { return nil }}
	w := newWorld(t, fakecyborg.ModeTree, images, map[string]map[string]string{
		imageID: {"resources:FPGA": "1", "accel:bitstream_id": imageID}, next: {"resources:FPGA": "1", "accel:bitstream_id": next},
	}, d)
	region := w.cloud.Cyborg.Deployables()[0].ProviderUUID
	for _, step := range []struct {
		fails error
		want  int // functions
	}{{nil, 1}, {errors.New("interrupted"), 0}, {nil, 1}} {
		d.written = func() error { return step.fails }
		image := imageID
		if step.fails != nil {
			image = next
		}
		if _, err := w.spawn(instanceA, image); (err != nil) != (step.fails != nil) {
			t.Fatal(err)
		}
		w.report()
		if got := w.functions(region); len(got) != step.want {
			t.Errorf("fails with %v: Placement has the functions %v", step.fails, got)
		}
		_ = w.flow.Release(t.Context(), instanceA) // a spawn that failed has released its request
		w.cloud.RemoveGuest(instanceA)
	}
}
