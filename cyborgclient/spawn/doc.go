// Package spawn attaches accelerators to an instance, as Nova does, in one
// flow of ten steps: device profile, request, candidates, select, claim,
// create ARQs, match, bind, wait, compose.
//
// [Flow.Run] runs all ten. On success every expected accelerator request (ARQ) is Bound and has an attach handle, and
// its device is in the domain XML. Handles of type TEST_PCI have no hardware and are listed in [Result.Skipped]
// instead; ARQs of network ports are in [Result.Ports]. After a failure the ARQs, the allocation and the registered
// events of the attempt are removed. [Error.Leftovers] lists what could not be removed, and the possible effects of a
// request whose response was lost: see [Leftover.Certain] and [Flow.Suspects]. If the failure may not occur on
// another host, the next host is tried; see [Attempt.Reschedulable].
//
//	flow, err := spawn.NewFromCloud(ctx, "prod", spawn.WithServiceCloud("prod-nova"), spawn.WithEvents(events))
//	if err != nil {
//		return err
//	}
//	result, err := flow.Run(ctx, spawn.Request{Instance: id, Flavor: flavor, Domain: domainXML})
//
// Nova calls Cyborg with the token of the user of each request. [Flow.As] does the same. The flow itself has a user
// for Placement and a service user:
//
//	user, err := flow.Cyborg().ForToken(ctx, token)
//	...
//	result, err := flow.As(user).Run(ctx, request)
//
// With a [Hypervisor] (option [WithHypervisor]) the flow also starts the guest, and destroys it after a failure:
//
//	request := spawn.Request{Instance: id, Flavor: flavor, Domain: domainXML}
//	result, err := flow.Run(ctx, request)
//	...
//	operations, err := flow.Operations()
//	...
//	err = operations.Delete(ctx, spawn.InstanceOf(request, result))
//
// The steps are methods of [Attempt], so an agent may replace one of them, for example to bind ARQs that another
// client created: call [Flow.Begin], then the steps in order, and [Attempt.Unwind] when one fails. Run does nothing
// else. With [WithJournal], a restarted agent undoes or finishes the operations that a crash interrupted:
// [Flow.Recover]. [Flow.Release] releases the accelerators and the allocation of a deleted instance,
// [Flow.ReleaseDevices] the accelerators of an instance that continues to exist. [Flow.Reconcile] finds and frees
// what earlier crashes of an agent did not clean up on its hosts.
//
// [Flow.Operations] are the later operations on an instance: delete, reboot, rescue, rebuild, evacuate, shelve, start
// after a reboot of the host, and the transfer of a vGPU from Nova to Cyborg. [Permit] reports which operations Nova
// blocks. [Flow.Program] loads another function into an FPGA.
//
// The order of requests, the wait for events and the defaults follow nova/conductor/manager.py,
// nova/compute/manager.py and nova/accelerator/cyborg.py of Nova 2026.1. The flow differs where shipped Nova loses
// devices: an ARQ that is not Bound is never a success, ARQs are deleted after every failure, handles are composed by
// their own type, and counts and group indices are verified. docs/compat.md lists the differences; [Compat] follows
// the specifications instead of shipped Nova.
//
// The two sides of Nova, the conductor up to Bind and nova-compute from WaitBound,
// may be different processes: [Attempt.Handover] is the JSON between them and
// [Flow.Resume] continues from it.
//
// Several flows, also in different processes, may work on one cloud at the same time. Operations on one instance run
// one after the other, as under Nova's instance lock, if they use the same flow or flows that share a store of
// journals. Without a shared store, a delete by another process between the claim and the bind of a spawn makes both
// succeed: the ARQs of the spawn are then Bound without an allocation until the instance is deleted again or
// [Flow.Reconcile] frees them.
//
// This package does not run guests, which a [Hypervisor] does, set up networks and volumes, which [Hooks].Prepare may
// do, or create mediated devices, which Cyborg's agent does unless the hypervisor is an [MdevCreator].
//
// [WithLogger] and [WithObserver] report the steps of a flow while they run; [Result.Trace] and [Error.Trace] record
// them.
//
// Nova's events only shorten the wait for a bind: the state of an ARQ is always read from Cyborg. Even with an event
// registry Cyborg is polled, at a lower rate. So an agent works when the events go to a real Nova, and an event that
// Cyborg does not confirm has no effect.
package spawn
