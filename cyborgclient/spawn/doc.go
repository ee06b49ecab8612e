// Package spawn is Nova's half of giving accelerators to an instance, as one
// flow of ten steps: device profile, request, candidates, select, claim,
// create ARQs, match, bind, wait, compose.
//
// [Flow.Run] walks all ten. It keeps one promise: success means that every
// expected accelerator request (ARQ) is Bound, has an attach handle, and its
// device is in the domain XML (handles of type TEST_PCI have no hardware and
// are listed in [Result.Skipped] instead, those of network ports are in
// [Result.Ports]); failure means that the ARQs, the allocation and the
// registered events of the attempt are gone again. What could not be undone is
// named in [Error.Leftovers]. A failure that another host may mend is undone
// and the next host is tried; see [Attempt.Reschedulable].
//
//	flow, err := spawn.New(spawn.Config{}, cyborg, placement, events)
//	if err != nil {
//		return err
//	}
//	result, err := flow.Run(ctx, spawn.Request{Instance: id, Flavor: flavor, Domain: domainXML})
//
// An agent that gives its guest's start to the flow as a hook has it undone as
// well:
//
//	result, err := flow.Run(ctx, spawn.Request{
//		Instance: id, Flavor: flavor, Domain: domainXML,
//		Hooks: spawn.Hooks{Start: defineAndStart, Destroy: destroy},
//	})
//	...
//	err = flow.Release(ctx, id) // when the guest is gone
//
// The steps are methods of [Attempt], so that an agent may own one of them:
// begin with [Flow.Begin], call the steps in order, and call [Attempt.Unwind]
// when anything fails. Run has no private path. [Flow.Release] gives an
// instance's accelerators and allocation back when it is deleted, and
// [Flow.Reconcile] finds and frees what earlier crashes of an agent left.
//
// What happens to an instance later is [Flow.Operations]: deletion, reboots,
// rescue, rebuild, evacuation, shelving, the return after a reboot of the host, a
// vGPU that passes from Nova to Cyborg; [Rules] is the table of them, [Permit]
// tells what Nova blocks. [Flow.Program] loads another function into an FPGA.
//
// The order of requests, the wait for events and the defaults follow
// nova/conductor/manager.py, nova/compute/manager.py and
// nova/accelerator/cyborg.py of Nova 2026.1. Where shipped Nova loses devices
// the flow does better: an ARQ that is not Bound is never a success, ARQs are
// deleted after every failure, handle types are judged one by one, counts and
// group indices are verified. [Compat] restores Nova's decisions one by one.
//
// The two sides of Nova, conductor up to Bind and compute from WaitBound, may
// be different processes: [Attempt.Handover] is the JSON between them and
// [Flow.Resume] takes it over.
//
// Deliberately not here: what makes a guest run (see [Hooks] and [Driver]),
// networks and volumes, and creating mediated devices, which Cyborg's agent does
// unless [Hooks.CreateMdev] says otherwise.
//
// Without an event registry the flow polls Cyborg instead of waiting for
// Nova's events. One Flow per process is meant: it knows which ARQs its own
// running attempts hold, and so which ones a create with a lost reply may have
// left.
package spawn
