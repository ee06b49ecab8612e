// Package simcloud is a whole simulated cloud in one line: Keystone, Placement, Cyborg
// with agents on synthetic or real hardware, and a stand-in for Nova that keeps the
// guests. Everything is reached over HTTP, in process or through a listener, and a
// checker tells across all services whether an accelerator leaked.
//
// It deliberately does not play Nova: whoever is tested claims in Placement, makes and
// binds accelerator requests, defines the guests and removes them. It shares no code with
// the client in this module, so that one misunderstanding cannot hide on both sides.
//
// The layout follows what Nova and Cyborg make of a real deployment: the compute roots of
// nova/virt/libvirt/driver.py (update_provider_tree), the reports of
// cyborg/conductor/manager.py, and the catalog's paths of DevStack.
//
// In a test:
//
//	cloud := simcloud.Run(t)
//	provider := cloud.Provider(t) // an authenticated *gophercloud.ProviderClient
//	...                           // what is to be tested
//	cloud.CheckNoLeaks(t)
//
// Run works inside a testing/synctest bubble; each call makes a cloud of its own. The
// whole cloud then lives in virtual time, and so do clients of gophercloud and
// go-retryablehttp that use its transport: tokens expire, binds time out and retries
// pause without anybody waiting. What has to be heeded is that a bubble ends with its
// goroutines, so clients must be done when the test returns. docs/testing.md shows it.
//
// Package drill runs a flow again and again with another fault each time, and checks what
// it leaves behind.
//
// [Cloud.Dump] writes the whole cloud down, [Cloud.Load] goes back to it, [FromState] makes
// another cloud of it, [DiffStates] tells two apart, and [WithStateFile] keeps a cloud over
// the end of its process. [Cloud.Requests] tells what was asked and what each request
// changed, [Cloud.Unread] what a client sent and nobody read.
package simcloud
