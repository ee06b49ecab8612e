// Command cysim serves simulated OpenStack clouds with accelerators on a
// socket, for programs in any language.
//
//	cysim serve [--state FILE]           a whole cloud: Keystone, Placement, Cyborg and Nova's stand-in;
//	                                     with --state it goes on where it ended
//	cysim placement --listen ADDRESS     Placement alone
//	cysim cyborg --listen ADDRESS --placement-url URL
//	                                     Cyborg alone, reporting to that Placement
//	cysim discover [--sysfs DIR] [--config FILE] [--nova-conf FILE] [-o table|json]
//	                                     what Cyborg's drivers find in this machine
//	cysim unflatten --placement-url URL [--dry-run]
//	                                     take Cyborg's classes and traits off the compute providers
//	cysim lint --flavor FILE --profile FILE [--rocky]
//	                                     tell what is wrong with flavors and device profiles
//	cysim check [--url URL]              ask a running cloud what leaked
//	cysim load [--spawns N] [--concurrency C] [--cloud NAME]
//	                                     drive whole spawns and deletes
//	cysim import --os-cloud NAME [--output FILE] [--replace-names] [--replace-ids]
//	                                     make a state for serve of a real cloud
//	cysim state show FILE                print a state that serve keeps
//	cysim state diff FILE FILE           tell in what two states differ
//	cysim version
//
// A command that serves prints shell export lines on standard output once it listens, its log on
// standard error, and ends with status 0 on SIGINT or SIGTERM. Bad flags and
// files end it with status 2 and the cause in one line, anything else that
// stops it with status 1, and so do findings of lint that are errors and states that differ; discover ends
// with status 3 where Cyborg and Nova both claim a device, check and load with 9 where
// something leaked.
//
// It deliberately decides nothing about the clouds themselves: the flags are
// the fields of the structs that the libraries take. It listens on the loopback
// interface only unless told otherwise, for its routes under /_sim/ ask for no
// token and its passwords are known.
//
//	cysim serve --clouds-yaml clouds.yaml > env.sh &
//	. ./env.sh
//	openstack accelerator device profile list
package main
