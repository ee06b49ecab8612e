package requestspec_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
)

// One request as a scheduler makes it: flavor, profile of two groups, query.
func BenchmarkRequestAndQuery(b *testing.B) {
	f := flavor(requestspec.DeviceProfileKey, "dp", "resources_net:SRIOV_NET_VF", "1", "trait_net:CUSTOM_PHYSNET_PUBLIC", "required", "hw:cpu_policy", "dedicated")
	p := profile(twoGroups)
	b.ReportAllocs()
	for b.Loop() {
		spec, err := requestspec.New(f, p, requestspec.Options{OwnerNova: true})
		if err != nil || spec.Query() == "" {
			b.Fatal(err)
		}
	}
}

func BenchmarkLint(b *testing.B) {
	f := flavor(requestspec.DeviceProfileKey, "dp", "resources_net:SRIOV_NET_VF", "1", "trait_net:CUSTOM_PHYSNET_PUBLIC", "required", "accel:device-profile", "x")
	p := profile(twoGroups)
	b.ReportAllocs()
	for b.Loop() {
		requestspec.Lint(&f, p)
	}
}
