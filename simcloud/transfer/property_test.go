package transfer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/testrun"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// use does something at random to a cloud; what the services refuse is nothing.
func use(t *testing.T, rt *rapid.T, cloud *simcloud.Cloud, n int) {
	ctx := t.Context()
	parts, devices, arqs := cloud.Cyborg.Deployables(), cloud.Cyborg.Devices(), cloud.Cyborg.ARQs()
	part := parts[rapid.IntRange(0, len(parts)-1).Draw(rt, "deployable")]
	profiles := cloud.Cyborg.DeviceProfiles()
	some := func() string {
		if len(arqs) == 0 {
			return ""
		}
		return arqs[rapid.IntRange(0, len(arqs)-1).Draw(rt, "request")].UUID
	}
	switch rapid.IntRange(0, 6).Draw(rt, "action") {
	case 0, 1:
		_, _ = cloud.Cyborg.CreateARQs(profiles[rapid.IntRange(0, len(profiles)-1).Draw(rt, "profile")].Name, cloud.ProjectID("demo"))
	case 2, 3:
		_ = cloud.Placement.Claim(placementsim.Claim{Consumer: instance(n), Project: "p", User: "u", Allocations: []placementsim.Allocation{
			{Provider: part.ProviderUUID, Class: part.ResourceClass(), Used: 1}}})
		_ = cloud.Cyborg.Bind(ctx, fakecyborg.Binding{ARQ: some(), Host: part.Hostname, Provider: part.ProviderUUID, Instance: instance(n)})
	case 4:
		_ = cloud.Cyborg.Unbind(ctx, some())
	case 5:
		_ = cloud.Cyborg.DeleteARQs(ctx, some())
	case 6:
		status := rapid.SampledFrom([]string{fakecyborg.StatusEnabled, fakecyborg.StatusMaintaining}).Draw(rt, "status")
		_ = cloud.Cyborg.SetDeviceStatus(ctx, devices[rapid.IntRange(0, len(devices)-1).Draw(rt, "device")].UUID, status)
	}
}

// The import of any used cloud lists the same, a report changes nothing, and everything can be released.
func TestTheImportOfAnyUsedCloudListsTheSame(t *testing.T) {
	t.Parallel()
	m := simcloud.DefaultModel()
	m.Hosts = m.Hosts[:1]
	seen := 0
	rapid.Check(t, func(rt *rapid.T) {
		m := m
		m.Seed = rapid.Uint64Range(0, 3).Draw(rt, "seed")
		m.Cyborg.PlacementMode = rapid.SampledFrom([]fakecyborg.PlacementMode{fakecyborg.ModeTree, fakecyborg.ModeNested}).Draw(rt, "mode")
		original, err := simcloud.New(t.Context(), m)
		if err != nil {
			rt.Fatal(err)
		}
		defer original.Close()
		for n := range rapid.IntRange(0, testrun.Of(25, 12)).Draw(rt, "actions") {
			use(t, rt, original, n)
		}
		l := listingOf(t, original)
		cloud, err := Import(t.Context(), l)
		if err != nil {
			rt.Fatal(err)
		}
		defer cloud.Close()
		if err := cloud.Cyborg.Report(t.Context()); err != nil {
			rt.Fatal(err)
		}
		if i := slices.IndexFunc(cloud.Requests(), func(r sim.Exchange) bool { return r.Service == "placement" && r.Method != "GET" }); i >= 0 {
			rt.Fatalf("the report wrote: %+v", cloud.Requests()[i])
		}
		if diff := diff(l, listingOf(t, cloud)); diff != "" {
			rt.Fatalf("listings (-original +imported):\n%s", diff)
		}
		if diff := cmp.Diff(held(original), held(cloud)); diff != "" {
			rt.Fatalf("attach handles in use (-original +imported):\n%s", diff)
		}
		seen += len(held(cloud))
		for _, a := range cloud.Cyborg.ARQs() {
			if err := cloud.Cyborg.DeleteARQs(t.Context(), a.UUID); err != nil {
				rt.Fatal(err)
			}
		}
		if left := held(cloud); len(left) > 0 {
			rt.Fatalf("still in use: %v", left)
		}
	})
	if testrun.Whole && !testing.Short() && seen < 50 { // short, rapid tries less
		t.Errorf("only %d attach handles were in use", seen)
	}
}

// held are the attach handles in use.
func held(cloud *simcloud.Cloud) []string {
	var list []string
	for _, h := range cloud.Cyborg.AttachHandles() {
		if h.InUse {
			list = append(list, fmt.Sprint(h.UUID, h.DeployableUUID, h.Type, h.Info, h.ARQ))
		}
	}
	slices.Sort(list)
	return list
}
