package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/simcloud"
)

// The file belongs to the names of the hosts and to the placement mode, however that is spelled. The release may change, also
// of a file that names one, as those of earlier versions do.
func TestTheStateOfACyborgAloneBelongsToItsHostsAndItsPlacementMode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	components := func() tables.Group { return tables.Group{{Name: "sim.faults", Recorded: fault.NewSet()}} }
	open := func(name, host string, config fakecyborg.Config) error {
		kept, err := openCyborgState(filepath.Join(dir, name), simcloud.Model{Cyborg: config}, &simcloud.Agents{Hosts: []driver.Host{{Name: host}}})
		if err != nil {
			return err
		}
		keeper, err := kept.keep(components(), nil)
		if err != nil {
			return err
		}
		return keeper.Close()
	}
	earlier, err := tables.OpenFile(filepath.Join(dir, "earlier"), false)
	must(t, err)
	must(t, earlier.Init([]byte(`{"hosts": [{"name": "cn0"}], "device_profiles": null, "flavors": null, "cyborg": {"release": "zed"}, "placement": {}}`), components()))
	must(t, earlier.Close())
	must(t, open("new", "cn0", fakecyborg.Config{Release: fakecyborg.ReleaseZed}))
	for _, file := range []string{"earlier", "new"} {
		for _, config := range []fakecyborg.Config{
			{}, {Release: fakecyborg.Release20262}, {Release: fakecyborg.ReleaseZed}, {PlacementMode: fakecyborg.ModeTree}, {BindTimeout: time.Hour},
		} {
			if err := open(file, "cn0", config); err != nil {
				t.Errorf("%s: %+v: %v", file, config, err)
			}
		}
		for want, err := range map[string]error{
			"cyborg.placement_mode": open(file, "cn0", fakecyborg.Config{PlacementMode: fakecyborg.ModeFlat}),
			"hosts[0].name":         open(file, "cn1", fakecyborg.Config{}),
		} {
			if err == nil || !strings.Contains(err.Error(), "belongs to another Cyborg:   "+want) {
				t.Errorf("%s: got %v, want a difference of %s", file, err, want)
			}
		}
	}
}
