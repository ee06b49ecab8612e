// Package nova is a stand-in for Nova's API as Cyborg sees it: the version documents
// and POST os-server-external-events; and flavors, which clients ask for first. It also keeps the
// guests, which represent the virtual machines on the hosts, and forwards accepted events to the
// receivers that play nova-compute.
//
// It deliberately schedules, builds and lists no servers: the callers of the simulator play this
// part of Nova. By default every server_uuid is accepted, since callers need not register
// instances. Config.StrictInstances checks them as Nova does. Config.EventForm accepts an event
// of the specifications of Train or Ussuri, which Nova never implemented.
//
// Server.State has the guests and the events, and Server.Resume forwards the events that
// were delayed. Receivers are not part of the state.
//
// Behaviour follows nova/api/openstack/compute/server_external_events.py,
// nova/api/openstack/compute/schemas/server_external_events.py, nova/api/openstack/wsgi.py,
// nova/api/openstack/compute/flavors.py, nova/api/openstack/compute/views/flavors.py
// and nova/compute/api.py (external_instance_event), releases 26 (zed) to 34 (2026.2): see Release. Unlike there,
// events are forwarded before the answer, to make runs repeatable; a delayed event comes later.
//
//	compute := nova.New(nova.Config{StrictInstances: true, Verifier: identity})
//	compute.HandleEvents(registry.Handler())
//	err := compute.DefineGuest(sim.Guest{UUID: id, Host: "cn0"})
package nova
