// Package externalevent handles Nova's server external events as far as
// accelerators need them: a registry of expected events and of those who wait for
// them, an HTTP handler that receives events as Nova's API does, and a sender.
//
// Cyborg reports each bound accelerator request with an event named
// accelerator-request-bound whose tag is the request's UUID. With most drivers it
// does so inside the call that binds, so whoever binds prepares first:
//
//	waiter, err := registry.Prepare(instance, arqs...)
//	if err != nil {
//		return err
//	}
//	defer waiter.Close()
//	// bind, then list the requests once
//	waiter.Early(resolved...)
//	err = waiter.Wait(ctx, 300*time.Second)
//
// What it deliberately does not do: an event nobody has prepared for is dropped,
// never kept for later, and an event is a hint, not a verdict: whether a request
// is Bound is for Cyborg to say. It starts no goroutine and keeps no clock of its
// own, so it works inside a testing/synctest bubble.
//
// The specifications before had other forms of the event: that of Train names each
// request, that of Ussuri a device profile. [WithForms] has a registry take them.
//
// Upstream behaviour followed: nova/compute/manager.py (InstanceEvents,
// ComputeVirtAPI.wait_for_instance_event),
// nova/api/openstack/compute/server_external_events.py and its schema, and
// cyborg/common/nova_client.py, of the 2026.1 releases. Unlike Nova, keys are
// forgotten when a waiter is closed, also after a timeout or an early exit.
package externalevent
