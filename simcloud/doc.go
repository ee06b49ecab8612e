// Package simcloud is a whole simulated cloud: Keystone, Placement, Cyborg with agents on
// synthetic or real hardware, and stand-ins for Nova, which keeps the guests, and Glance.
// Clients reach it over HTTP, in process or through a listener. A checker finds leaked
// accelerators across all services.
//
// The stand-in for Nova schedules nothing: the tested program claims in Placement, creates and
// binds accelerator requests, and defines and removes the guests. The package shares no code with
// the client in this module, so a misunderstanding cannot be on both sides.
//
// The layout follows a real deployment of Nova and Cyborg: the compute roots of
// nova/virt/libvirt/driver.py (update_provider_tree), the reports of
// cyborg/conductor/manager.py, and the paths of DevStack's catalog.
//
// In a test:
//
//	cloud := simcloud.Run(t)
//	provider := cloud.Provider(t) // an authenticated *gophercloud.ProviderClient
//	...                           // the tested program
//	cloud.CheckNoLeaks(t)
//
// Run works inside a testing/synctest bubble. The whole cloud then uses virtual time, and so do
// clients of gophercloud and go-retryablehttp that use its transport: tokens expire, binds time
// out and retries pause without real waiting. A bubble ends only when its goroutines have ended,
// so clients must be done when the test returns. docs/test-your-agent.md has an example.
//
// Package drill runs a flow again and again, each time with a different fault, and checks for leaks.
//
// [Cloud.Dump] writes the state of a cloud, [Cloud.Load] restores it, [FromState] makes
// another cloud from it, [State.Diff] compares two states, and [WithStateFile] keeps the
// state in a file. [Cloud.Requests] lists the requests and what each of them changed,
// [Cloud.Unrecognized] their unknown query keys and body fields.
package simcloud
