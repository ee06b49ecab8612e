// Command cysim serves simulated OpenStack clouds with accelerators on a
// socket, for programs in any language.
//
//	cysim serve [--state FILE]           a whole cloud: Keystone, Placement, Cyborg, stand-ins for Nova
//	                                     and Glance; with --state it continues where it ended
//	cysim placement --listen ADDRESS     Placement alone
//	cysim cyborg --listen ADDRESS --os-cloud NAME [--auth keystone] [--sysfs DIR] [--state FILE]
//	                                     Cyborg alone, beside the services of a real cloud
//	cysim discover [--sysfs DIR] [--config FILE] [--nova-conf FILE] [-o table|json]
//	                                     which devices of this machine can be assigned to guests
//	cysim mdev create|remove [--sysfs DIR] [--config FILE] PARENT TYPE [UUID]
//	                                     make and remove mediated devices and vGPUs, as a bind does
//	cysim unflatten --placement-url URL [--dry-run]
//	                                     remove Cyborg's classes and traits from the compute providers
//	cysim lint --flavor FILE --profile FILE [--rocky]
//	                                     check flavors and device profiles
//	cysim check [--url URL]              list the leaked resources of a running cloud
//	cysim load [--spawns N] [--concurrency C] [--warmup N] [--keep | --hold TIME] [--cloud NAME]
//	                                     run spawn/delete cycles; an embedded cloud has --hosts N,
//	                                     --devices N of each, and --fill PERCENT in use before
//	cysim import --os-cloud NAME [--output FILE] [--replace-names] [--replace-ids]
//	                                     make a state for serve from a real cloud
//	cysim state show FILE                print a state that serve or cyborg keeps
//	cysim state diff FILE FILE           compare two states
//	cysim version
//
// A command that serves prints shell export lines on standard output once it is ready, its log on
// standard error, and exits 0 on SIGINT or SIGTERM. Bad flags and files exit 2 with the cause in
// one line. Every other failure exits 1, and so do lint with errors and state diff with
// differences. discover exits 3 if Cyborg and Nova both claim a device, check and load exit 9 if
// something leaked.
//
// cysim adds no behaviour to the clouds: its flags are the fields of the structs that the
// libraries take. It listens on the loopback interface by default, because its routes below
// /_sim/ need no token and its passwords are public defaults.
//
//	cysim serve --clouds-yaml clouds.yaml > env.sh &
//	. ./env.sh
//	openstack accelerator device profile list
package main
