// Package matching decides which resource provider each accelerator request is
// bound to, once Placement has chosen a candidate.
//
// Placement's mappings tell which provider serves each request group;
// [Providers] reads them. Cyborg's accelerator requests tell which group of the
// device profile they belong to; [Bindings] joins the two. Where Nova trusts,
// this package verifies: that every group received exactly the requests that
// its amounts call for, and that every index is in range. A device profile that
// was changed between reading it and creating the requests is noticed that way,
// before anything is bound.
//
// Where mappings are missing (Placement before 1.34), [Search] finds the
// assignment in the allocations. [Unchanged] notices a profile that was replaced
// by one of the same counts. Before all of that, [Weigh] orders the candidates by
// what weighers say: [FunctionLoaded], [FewestFragments], [NUMAAffinity], or the
// caller's own, one after the other or in a [Sum], each with its reason.
//
// The package does no I/O and keeps no state. It deliberately does not compare
// amounts with what a provider has: Placement has done so.
//
// Upstream behaviour followed (Nova 2026.2): nova/accelerator/cyborg.py
// (create_arqs_and_match_resource_providers, get_arq_device_rp_uuid),
// nova/scheduler/utils.py (fill_provider_mapping), nova/objects/request_spec.py
// (map_requested_resources_to_providers) and, for the order of weighers,
// nova/weights.py.
//
//	bindings, err := matching.Bindings(profile, candidate.Mappings, arqs)
//	if err != nil {
//		return err // nothing is bound yet; the ARQs are still to be deleted
//	}
//	for _, b := range bindings {
//		fmt.Println(b.ARQ, "->", b.DeviceRP)
//	}
package matching
