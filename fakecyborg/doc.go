// Package fakecyborg is OpenStack Cyborg in one process: its API v2, its
// conductor and the agents of its hosts, exact enough that unmodified clients
// cannot tell the difference.
//
// A [Server] is an http.Handler that answers below /accelerator and at the
// root. Hosts are added with [Server.AddHost]; their drivers look at hardware,
// real or synthetic, and [Server.Report] stores what they found and tells
// Placement about it over HTTP, call by call as Cyborg's conductor does. A bind
// takes an attach handle, creates the mediated device if the handle is one, and
// posts the event accelerator-request-bound to Nova. State can also be read and
// set up in Go, without HTTP, and the Check methods serve tests.
//
// By default the defects of upstream are repaired: bad input is answered 400,
// 404 or 409 instead of 500, a profile that could never be used is refused, and
// a bind that fails leaves nothing behind. Config.UpstreamQuirks restores them,
// so that a client can be tried against what it will really meet;
// docs/cyborg-behaviour.md lists them. One is kept on purpose: a PATCH that fails halfway keeps the requests it
// has bound, and sends no event, because the answer tells Nova. Config.Release
// chooses between today's API and that of Zed.
//
// The package deliberately has no database, no message queue, no Keystone and
// no Placement: tokens are checked by a [TokenVerifier], peers are an
// [Endpoint] each, and without them the server stands alone. Bitstreams come from
// a Glance; the function that was written to a region is told in Placement until
// the driver tells another.
//
// A host can go down and come up again ([Server.StopAgent], [Server.StartAgent]):
// the mediated devices of its bound requests are made again. Config.BindingStates
// shows that to clients, as a specification of Cyborg's wants it.
//
// A Server is a [sim.Recorded]: its state is a set of records, and [Server.Resume] goes
// on with what was going on in the process that they are of. An answer that was still
// to be given is lost, as with a real service: its caller tries again.
//
// It follows, of the 2026.2 release, cyborg/api/controllers/v2 (wire),
// cyborg/api/hooks.py and cyborg/common/policies (access),
// cyborg/objects/ext_arq.py and cyborg/objects/extarq (life of a request),
// cyborg/conductor/manager.py and cyborg/services/report.py (reports to
// Placement), cyborg/common/nova_client.py (events).
//
//	cyborg, err := fakecyborg.New(fakecyborg.Config{}, fakecyborg.WithPlacement(placement))
//	err = cyborg.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{fake.New("cn0")}})
//	err = cyborg.Report(ctx)
//	http.ListenAndServe("127.0.0.1:6666", cyborg)
package fakecyborg
