package simcloud_test

import (
	"slices"
	"testing"

	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestDiffContentFindsWhatReallyDiffers(t *testing.T) {
	t.Parallel()
	var dumps [2]simcloud.State
	for i := range dumps {
		cloud := simcloud.Run(t, simcloud.Model{Seed: uint64(i)})
		admin := login(t, cloud, "admin", "admin")
		for n := range 2 {
			consumer := []string{"00000000-0000-4000-8000-0000000000a", "ffffffff-0000-4000-8000-0000000000b"}[i] + []string{"1", "2"}[n]
			admin.claim(consumer, "PGPU:1", "")
		}
		if i == 1 {
			if _, err := cloud.Cyborg.CreateDeviceProfile("more", []map[string]string{{"resources:PGPU": "1"}}); err != nil {
				t.Fatal(err)
			}
		}
		dumps[i] = dump(t, cloud)
	}
	whole, err := dumps[0].Diff(dumps[1])
	must(t, err)
	found, err := dumps[0].DiffContent(dumps[1])
	must(t, err)
	found = slices.DeleteFunc(found, func(d sim.Difference) bool { return d.IsTime() || d.IsToken() })
	want := []string{
		"model.cyborg.seed", "model.placement.seed", "model.seed",
		"accelerator.device_profiles[0000000006 more]", "accelerator.sequences[device_profile_uuids].last",
		"accelerator.sequences[device_profiles].last", "sim.faults.seed[seed].seed",
	}
	var got []string
	for _, d := range found {
		got = append(got, d.Path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v of %d differences, want %v", found, len(whole), want)
	}
	if len(whole) < 100 {
		t.Errorf("Diff finds %d differences, which is less than the identifiers", len(whole))
	}
}
