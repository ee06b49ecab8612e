// Package cloudmodel plays random scripts on a cloud: two to four agents, with tokens of several projects, spawn, operate
// on and delete instances of two to four hosts, while requests fail, processes die, hosts go down, devices vanish and
// profiles change. A judge of its own reads the services' public APIs and the guests' XML, and nothing of the flow:
//
//   - every living guest has exactly what its device profile asks for;
//   - no device has two owners;
//   - every allocation is a living instance's and equals its devices;
//   - an error names what remains, and what it names as certain exists;
//   - [simcloud.Cloud.Leaks], GET /_sim/leaks and cysim check find what the judge finds.
//
// A seed makes the scripts, and one that fails is shown without all that it does not need. docs/dev/testing.md has the commands.
package cloudmodel
