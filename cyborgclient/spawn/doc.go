// Package spawn attaches accelerators to an instance, as Nova does, in one
// flow of ten steps: device profile, request, candidates, select, claim,
// create ARQs, match, bind, wait, compose.
//
// [Flow.Run] runs all ten. Success means that every expected
// accelerator request (ARQ) is Bound, has an attach handle, and its device is in
// the domain XML (handles of type TEST_PCI have no hardware and are listed in
// [Result.Skipped] instead, those of network ports are in [Result.Ports]). Failure
// means that the ARQs, the allocation and the registered events of the attempt are
// gone again. [Error.Leftovers] lists what could not be undone, and what a request with a
// lost reply may have created or may still create after [LateWindow]: see [Leftover.Certain]
// and [Flow.Suspects]. After a failure that may not occur on another host the next host is
// tried; see [Attempt.Reschedulable].
//
//	flow, err := spawn.NewFromCloud(ctx, "prod", spawn.WithServiceCloud("prod-nova"), spawn.WithEvents(events))
//	if err != nil {
//		return err
//	}
//	result, err := flow.Run(ctx, spawn.Request{Instance: id, Flavor: flavor, Domain: domainXML})
//
// Nova uses the token of each request's user for Cyborg. [Flow.As] does so; the flow's own
// users are Placement's and a service user:
//
//	user, err := flow.Cyborg().ForToken(ctx, token)
//	...
//	result, err := flow.As(user).Run(ctx, request)
//
// With a [Hypervisor], the option [WithHypervisor], the flow starts the guest as well, and destroys it after a failure:
//
//	request := spawn.Request{Instance: id, Flavor: flavor, Domain: domainXML}
//	result, err := flow.Run(ctx, request)
//	...
//	operations, err := flow.Operations()
//	...
//	err = operations.Delete(ctx, spawn.InstanceOf(request, result))
//
// The steps are methods of [Attempt], so that an agent may replace one of them, for example to bind
// ARQs that another client created: call
// [Flow.Begin], then the steps in order, and [Attempt.Unwind] when one fails. Run
// uses nothing else. With [WithJournal] an agent that was killed undoes or finishes what it had begun: [Flow.Recover].
// [Flow.Release] gives back the accelerators and the allocation of
// a deleted instance, [Flow.ReleaseDevices] the accelerators of an instance that continues to exist, and
// [Flow.Reconcile] finds and frees what earlier crashes of an agent left on its hosts.
//
// [Flow.Operations] are the later operations on an instance: deletion, reboots,
// rescue, rebuild, evacuation, shelving, the start after a reboot of the host, and
// the transfer of a vGPU from Nova to Cyborg. [Permit] says what Nova blocks.
// [Flow.Program] loads another function into an FPGA.
//
// The order of requests, the wait for events and the defaults follow
// nova/conductor/manager.py, nova/compute/manager.py and nova/accelerator/cyborg.py
// of Nova 2026.1. Where shipped Nova loses devices the flow does not: an ARQ that is
// not Bound is never a success, ARQs are deleted after every failure, handles are
// composed by their own type, counts and group indices are verified. docs/compat.md
// lists the differences; [Compat] follows the specifications instead of shipped Nova.
//
// The two sides of Nova, the conductor up to Bind and nova-compute from WaitBound,
// may be different processes: [Attempt.Handover] is the JSON between them and
// [Flow.Resume] continues from it.
//
// Flows, and processes, may work on one cloud at the same time, each on its own instances. What is done
// to one instance is done one after the other, as Nova does under its lock of the instance: by one flow, and by flows that share a
// store of journals. Without one, after a deletion by another process between the claim and the bind of a spawn, both succeed, and the
// spawn's ARQs are Bound without an allocation, until the instance is deleted again or [Flow.Reconcile] finds it gone.
//
// What this package does not do: it does not run guests, which a [Hypervisor] does, set up networks and volumes, which
// [Hooks].Prepare may do, or create mediated devices, which Cyborg's agent does unless the hypervisor is an [MdevCreator].
//
// [WithLogger] and [WithObserver] report the steps of a flow; [Result.Trace] and
// [Error.Trace] are the record of them.
//
// An event of Nova only shortens the wait for a bind: the state is read from Cyborg. Cyborg is
// polled too, slowly beside an event registry, so that an agent works where the events go to a
// real Nova, and an event that Cyborg does not confirm has no effect.
package spawn
