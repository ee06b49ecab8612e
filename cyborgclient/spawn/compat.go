package spawn

// Compat switches single decisions of a flow back to what shipped Nova does,
// or over to what one of the specifications says. The zero value is this
// library's default; docs/compat.md has every option in one table, with its
// default and the reason. Fields are named for what they bring about, and in
// JSON by the same words.
//
// An option that restores a defect is for comparison with a real Nova and for
// tests of a cloud; with it the promise of [Flow.Run] does not hold.
type Compat struct {
	// Defects of shipped Nova, by their number in docs/compat.md.

	// NovaMasking takes every ARQ that is resolved for a success, BindFailed and
	// Deleting included, and passes over a failed event of an ARQ that the first
	// look found resolved. Defect 1.
	NovaMasking bool `json:"nova_masking,omitempty"`
	// KeepARQs leaves the ARQs in Cyborg where Nova forgets them: when they could
	// not be matched with providers, when a further create failed, and when a
	// build ended before or beside the guest. Defect 2.
	KeepARQs bool `json:"keep_arqs,omitempty"`
	// RescheduleKeepsARQs goes on to the next host without deleting the ARQs of
	// the failed one, so that Cyborg refuses the next bind. Defect 3.
	RescheduleKeepsARQs bool `json:"reschedule_keeps_arqs,omitempty"`
	// UnshelveKeepsARQs leaves the bound ARQs of an unshelve that failed, which
	// makes the next one fail at bind. Defect 4.
	UnshelveKeepsARQs bool `json:"unshelve_keeps_arqs,omitempty"`
	// AllOrNothingHandles composes the handles only when all of them are PCI;
	// otherwise the guest gets none. Defect 5.
	AllOrNothingHandles bool `json:"all_or_nothing_handles,omitempty"`
	// PortARQsAsHostdevs gives a guest that is started again the devices of its
	// ports as host devices too, beside their interfaces. Defect 6.
	PortARQsAsHostdevs bool `json:"port_arqs_as_hostdevs,omitempty"`
	// ResumeWithoutAccelerators drops the accelerators of a guest that is
	// started again after its host. Defect 7.
	ResumeWithoutAccelerators bool `json:"resume_without_accelerators,omitempty"`
	// LastGroupLeftovers has the search without mappings look for leftovers in
	// the classes of the last group only. Defect 8.
	LastGroupLeftovers bool `json:"last_group_leftovers,omitempty"`
	// LateGroupErrors lets profile groups without resources, or with an amount
	// of zero, pass until Placement or the matching stumbles over them. Defect 9.
	LateGroupErrors bool `json:"late_group_errors,omitempty"`
	// OneDelete deletes ARQs by UUID with one request and takes its failure for
	// the end, though one missing UUID keeps Cyborg from deleting the others.
	// Defect 10.
	OneDelete bool `json:"one_delete,omitempty"`
	// KeepEvents leaves events registered after a wait that failed, or that did
	// not need them. Defect 11.
	KeepEvents bool `json:"keep_events,omitempty"`
	// RawDecodeErrors hands the error of an answer that is not JSON on as it is,
	// without operation, subject and class. Defect 12.
	RawDecodeErrors bool `json:"raw_decode_errors,omitempty"`
	// NilPortsFail fails an instance whose ports were not given, instead of
	// taking it for one without ports. Defect 13.
	NilPortsFail bool `json:"nil_ports_fail,omitempty"`
	// OwnerNovaOnFlavorGroups requires OWNER_NOVA of the flavor's own VGPU
	// groups as well, as the specifications say and shipped Nova does not.
	// Defect 14, off by default: providers of a Nova before 34.0.0 have no such
	// trait.
	OwnerNovaOnFlavorGroups bool `json:"owner_nova_on_flavor_groups,omitempty"`

	// Where the specifications and shipped Nova disagree.

	// NumericSuffixes speaks to a Placement before 1.34: numeric group suffixes
	// at microversion 1.32, and the provider of each group is searched for.
	NumericSuffixes bool `json:"numeric_suffixes,omitempty"`
	// SearchProviders searches for the provider of each group as Stein and Train
	// did, although Placement has told it in the mappings.
	SearchProviders bool `json:"search_providers,omitempty"`
	// FlatProviders takes the compute node's own provider for a device's, as in
	// a cloud whose Cyborg reports no nested providers.
	FlatProviders bool `json:"flat_providers,omitempty"`
	// Rebind keeps the ARQs over a reschedule: they are unbound and bound again
	// on the next host, as the specifications of Train and Ussuri say.
	Rebind bool `json:"rebind,omitempty"`
	// UnbindFirst unbinds ARQs explicitly before they are deleted.
	UnbindFirst bool `json:"unbind_first,omitempty"`
	// ResolvedByServer asks Cyborg for the resolved ARQs (bind_state=resolved,
	// 423 while there are others) instead of looking at their states here.
	ResolvedByServer bool `json:"resolved_by_server,omitempty"`
	// BindFailureIsFatal ends a spawn whose bind failed, as Nova does, instead of
	// trying the next host.
	BindFailureIsFatal bool `json:"bind_failure_is_fatal,omitempty"`
	// IgnoreUnknownHandles leaves a handle of an unknown type out of the guest,
	// named in Result.Skipped, instead of failing.
	IgnoreUnknownHandles bool `json:"ignore_unknown_handles,omitempty"`

	// TryNovaCandidates keeps candidates whose accelerator is on a provider with
	// OWNER_NOVA, which Cyborg cannot bind.
	TryNovaCandidates bool `json:"try_nova_candidates,omitempty"`

	// Further options; append here, one field per line with its doc comment.
}
