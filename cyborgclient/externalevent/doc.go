// Package externalevent handles Nova's server external events for accelerators:
// a registry of expected events and the waiters for them, an HTTP handler that
// receives events as Nova's API does, and a sender.
//
// Cyborg reports each bound accelerator request with an event named
// accelerator-request-bound whose tag is the request's UUID. With most drivers it
// does so inside the call that binds, so prepare before you bind:
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
// The registry drops an event that it does not expect. An event is a hint:
// read from Cyborg whether a request is Bound. The package starts no goroutine and uses the
// standard clock, so it works inside a testing/synctest bubble.
//
// The specifications of Train and Ussuri have other events, which name each request
// or a device profile. [WithAccept] enables them.
//
// Upstream behaviour followed: nova/compute/manager.py (InstanceEvents,
// ComputeVirtAPI.wait_for_instance_event),
// nova/api/openstack/compute/server_external_events.py and its schema, and
// cyborg/common/nova_client.py, of the 2026.1 releases. Unlike Nova, closing a
// waiter removes its keys, also after a timeout or an early exit.
package externalevent
