// Package placement is the part of Placement's API that a spawn uses, as a typed
// client over gophercloud's: allocation candidates, allocations and resource
// providers. Calls can be observed, and errors have Placement's code.
//
// It follows nova/scheduler/client/report.py of Nova 2026.1.
package placement
