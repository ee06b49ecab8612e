// Package placement is a typed client, based on gophercloud's, for the part of Placement's API that a spawn uses:
// allocation candidates, allocations and resource providers. Calls can be observed, and errors have Placement's code.
package placement
