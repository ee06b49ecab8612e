package fpga_test

import (
	"errors"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// TestTheNextHostIsTriedWhenARegionIsInUse: Placement has room for a second guest in a region, which it cannot know to
// need another function.
func TestTheNextHostIsTriedWhenARegionIsInUse(t *testing.T) {
	t.Parallel()
	const otherImage, instanceC = "cccccccc-0000-4000-8000-000000000002", "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b003"
	images := append(image(t, "2", "c"), simcloud.Image{ID: otherImage, Data: string(gbs(t, "2", "d"))})
	w := newWorld(t, fakecyborg.ModeTree, images, map[string]map[string]string{
		"c": {"resources:FPGA": "1", "accel:bitstream_id": imageID},
		"d": {"resources:FPGA": "1", "accel:bitstream_id": otherImage},
		"e": {"resources:FPGA": "1", "accel:function_id": id("e")},
	}, newIntel(t, fpga.Config{}, drivertest.Tree(t, intelCard(pf, 0, "2", "bb", 2))))
	second := newIntel(t, fpga.Config{Host: "cn1"}, drivertest.Tree(t, intelCard(pf, 0, "2", "bb", 2)))
	w.addHost(driver.Host{Name: "cn1", Drivers: []driver.Driver{second}})
	w.report()
	first := w.mustSpawn(instanceA, "c")
	next := w.mustSpawn(instanceB, "d")
	if first.Host == next.Host {
		t.Errorf("both regions are of host %s", next.Host)
	}
	if _, err := w.spawn(instanceC, "e"); !errors.Is(err, cyborgclient.ErrRegionRefused) {
		t.Errorf("no further host: %v", err)
	}
}
