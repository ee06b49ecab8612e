// Package matching assigns accelerator requests to the resource providers of an
// allocation candidate, and orders candidates.
//
// [Providers] reads the provider of each request group from Placement's mappings.
// [Matches] joins them with Cyborg's accelerator requests, each for one group of the device
// profile. Unlike Nova, it verifies that every group has as many requests as its amounts require
// and that every index is in range. This detects a device profile that changed before the
// requests were created.
//
// Without mappings (Placement before 1.34), [Search] finds the assignment in the
// allocations. [Unchanged] detects a profile that was replaced by one with the same
// counts. [Weigh] orders the candidates by weighers: [FunctionLoaded],
// [FewestFragments], [NUMAAffinity], or the caller's own, in order of priority, each
// with its reason.
//
// The package does no I/O and keeps no state. It does not compare amounts with the
// inventory of a provider, as Placement has done that.
//
// Upstream behaviour followed (Nova 2026.2): nova/accelerator/cyborg.py
// (create_arqs_and_match_resource_providers, get_arq_device_rp_uuid),
// nova/scheduler/utils.py (fill_provider_mapping), nova/objects/request_spec.py
// (map_requested_resources_to_providers) and, for the order of weighers,
// nova/weights.py.
//
//	matches, err := matching.Matches(profile, candidate.Mappings, arqs)
//	if err != nil {
//		return err // nothing is bound yet; the ARQs are still to be deleted
//	}
//	for _, m := range matches {
//		fmt.Println(m.ARQ, "->", m.DeviceRP)
//	}
package matching
