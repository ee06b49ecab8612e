// Command cysim serves simulated OpenStack clouds with accelerators on a
// socket, for programs in any language.
//
//	cysim serve                          a whole cloud: Keystone, Placement, Cyborg and Nova's stand-in
//	cysim placement --listen ADDRESS     Placement alone
//	cysim cyborg --listen ADDRESS --placement-url URL
//	                                     Cyborg alone, reporting to that Placement
//	cysim discover [--sysfs DIR] [--config FILE] [--nova-conf FILE] [-o table|json]
//	                                     what Cyborg's drivers find in this machine
//	cysim unflatten --placement-url URL [--dry-run]
//	                                     take Cyborg's classes and traits off the compute providers
//	cysim version
//
// It prints shell export lines on standard output once it listens, its log on
// standard error, and ends with status 0 on SIGINT or SIGTERM. Bad flags and
// files end it with status 2 and the cause in one line, anything else that
// stops it with status 1; discover ends with status 3 where Cyborg and Nova both
// claim a device.
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
