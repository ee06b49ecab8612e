// Package nova is a stand-in for Nova's API as Cyborg sees it: the version documents
// and POST os-server-external-events. Beside that it keeps the guests, which take the
// place of the virtual machines on the hosts, and passes accepted events on to whoever
// plays nova-compute.
//
// It deliberately schedules, builds and lists no servers: the callers of the simulator
// are the part of Nova that does. By default every server_uuid is accepted, since those
// callers need not register instances; Config.StrictInstances judges as Nova does, and
// Config.EventForm takes an event of the specifications of Train or Ussuri, which Nova
// never did.
//
// Server.Dump and Server.Load keep guests and events over a restart, and Server.Resume
// passes on what was put off. The handler and the URLs are the process's. An event that
// was being passed on when the process ended may be passed on again.
//
// Behaviour follows nova/api/openstack/compute/server_external_events.py,
// nova/api/openstack/compute/schemas/server_external_events.py, nova/api/openstack/wsgi.py
// and nova/compute/api.py (external_instance_event) of the 2024 releases. Unlike there,
// events are passed on before the answer, so that runs repeat; a delayed one comes later.
//
//	compute := nova.New(nova.Config{StrictInstances: true}, nova.WithTokenVerifier(identity))
//	compute.HandleEvents(registry.Handler())
//	err := compute.DefineGuest(sim.Guest{UUID: id, Host: "cn0"})
package nova
