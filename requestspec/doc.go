// Package requestspec turns a flavor and its device profile into the request
// groups and the allocation-candidates query that Nova would send to Placement.
//
// A flavor names at most one device profile in the extra spec
// [DeviceProfileKey]. Each group of that profile becomes one request group
// whose requester id is [RequesterID] of its position, which identifies the group in Placement's
// mappings. The flavor's own granular groups are part of the same query, under one group policy.
//
// Messages that Nova only logs are returned as [Warning] values. Mistakes that Nova
// detects too late, such as a profile group of traits without resources, are
// errors here that name profile, group and key.
//
// Optional features are
//   - groups of Neutron ports ([PortGroups]), image traits and
//     the request filters with their version checks ([Options]);
//   - numeric suffixes for Placement before 1.33 ([RequestSpec.Microversion]);
//   - flavors of the Rocky specification, which do not name a device profile ([FromRocky]).
//
// [Lint] reports mistakes in a flavor or a device profile before it is used, each
// with a suggestion.
//
// The package does no I/O, keeps no state and reads no clock. It does not implement
// CPU pinning, NUMA or memory encryption; [Options] takes groups for those.
//
// Upstream behaviour followed (Nova 2026.2, equal to Zed where not said
// otherwise): nova/scheduler/utils.py, nova/scheduler/request_filter.py,
// nova/objects/request_spec.py, nova/objects/image_meta.py,
// nova/accelerator/cyborg.py, nova/network/neutron.py; for the number of
// accelerator requests per group cyborg/api/controllers/v2/arqs.py, and for the
// form of a profile cyborg/api/controllers/v2/device_profiles.py.
//
//	flavor := requestspec.Flavor{Name: "gpu.small", VCPUs: 2, MemoryMB: 2048, RootGB: 20,
//		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "gpu"}}
//	profile := requestspec.Profile{Name: "gpu",
//		Groups: []map[string]string{{"resources:PGPU": "1"}}}
//	spec, err := requestspec.New(flavor, &profile, requestspec.Options{})
//	if err != nil {
//		return err
//	}
//	url := endpoint + "/allocation_candidates?" + spec.Query()
package requestspec
