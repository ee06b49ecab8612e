// Package placementsim is an OpenStack Placement service in process: resource
// providers in trees, inventories, traits, aggregates, allocations, usages,
// allocation candidates and the reshaper, microversions 1.0 to 1.39, with
// Placement's own error dialect.
//
// A [Server] is an [http.Handler] that keeps everything in memory. There is also a direct API in
// Go ([Server.CreateProvider], [Server.SetInventory], [Server.Claim], ...) to set up state
// quickly, and [Server.CheckUsage] and [Server.CheckNoAllocations] to check it in a test.
//
// It deliberately keeps nothing on disk, knows no policy files (only the
// profiles of [Config]), and corrects defects of the service, for example in its candidate
// search: amounts of groups that share a class are summed up, candidates of sharing providers are
// not lost, a group without resources may have only negative conditions, and its in_tree is not
// ignored. Config.UpstreamQuirks restores the defects that matter to clients.
//
// The behaviour follows placement/handlers, placement/schemas,
// placement/objects, placement/policies, placement/lib.py, placement/util.py,
// placement/auth.py and placement/microversion.py of the Placement service,
// releases 8.0.0 (zed) to 16.0.0 (2026.2); [Release] has their differences.
//
//	server := placementsim.Run(t) // in a test
//	client, err := openstack.NewPlacementV1(server.Provider(), gophercloud.EndpointOpts{})
package placementsim
