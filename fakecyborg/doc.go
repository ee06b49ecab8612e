// Package fakecyborg is OpenStack Cyborg in one process: its API v2, its conductor and the agents of its
// hosts. Unmodified OpenStack clients work with it.
//
// A [Server] is an http.Handler that answers below /accelerator and at the root. Hosts are added with
// [Server.AddHost]; their drivers read hardware, real or synthetic, and [Server.Report] stores what they
// found and writes it to Placement over HTTP, call by call as Cyborg's conductor does. A bind takes an
// attach handle, creates the mediated device if the handle is one, and posts the event
// accelerator-request-bound to Nova. State can also be read and set up in Go, without HTTP, and the Check
// methods serve tests.
//
// By default the defects of upstream are fixed: bad input is answered 400, 404 or 409 instead of 500, a
// profile that could never be used is refused, and a failed bind leaks nothing. Config.UpstreamQuirks
// restores the defects, to test a client with them; docs/dev/cyborg-behaviour.md lists them. One is kept
// deliberately: a PATCH that fails halfway keeps the requests it has bound, and sends no event, because Nova
// gets the error. Config.Release selects the API of 2026.2, of the development after it, or of Zed.
//
// The package deliberately has no database, no message queue, no Keystone and no Placement: tokens are
// verified by a [sim.TokenVerifier], and each peer is an optional [sim.Endpoint]. Bitstreams come
// from a Glance; the function of a programmed region is in Placement until the driver reports another.
//
// A host can be stopped and started ([Server.StopAgent], [Server.StartAgent]): the mediated devices of its
// bound requests are created again. Config.BindingStates shows that to clients, as a specification of Cyborg
// requires.
//
// A Server is a [sim.Recorded]: its state is a set of records, and [Server.Resume] continues the work that
// was in progress when they were made.
//
// It follows, of the 2026.2 release, cyborg/api/controllers/v2 (wire), cyborg/api/hooks.py and
// cyborg/common/policies (access), cyborg/objects/ext_arq.py and cyborg/objects/extarq (life of a request),
// cyborg/conductor/manager.py and cyborg/services/report.py (reports to Placement),
// cyborg/common/nova_client.py (events).
//
//	cyborg, err := fakecyborg.New(fakecyborg.Config{}, fakecyborg.WithPlacement(placement))
//	err = cyborg.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{fake.New("cn0")}})
//	err = cyborg.Report(ctx)
//	http.ListenAndServe("127.0.0.1:6666", cyborg)
package fakecyborg
