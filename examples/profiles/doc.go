// Package profiles holds a device profile for each use case of the Rocky
// specification of the Cyborg-Nova scheduling, the flavor that the specification
// writes for it, and a cloud with the devices that they ask for.
//
//	daas-hpts.json                  a device as it is: a time card
//	daas-fpga.json                  a device as it is: an FPGA region
//	bitstream-at-request-time.json  Cyborg writes a bitstream before the instance starts
//	bitstream-at-run-time.json      the instance has Cyborg write one later
//	afaas-pre-programmed.json       a function that is there and stays
//	afaas-function-id.json          Cyborg programs a function by its id
//	afaas-function-name.json        ... and by its name
//	local-memory.json               with memory of the device
//	several-groups.json             several devices in groups of their own
//
//	flavors/NAME.json               the same as a flavor without a device profile
//	cloud.json                      the model of a cloud that serves all at the same time
//
// A profile is what openstack accelerator device profile create takes, with its
// name and description around it; cysim lint judges it, and cysim lint --rocky
// makes it of the flavor. The tests of this package are how all of it is used:
//
//	cysim serve --model examples/profiles/cloud.json
//	cysim lint --flavor examples/profiles/flavors/afaas-function-id.json --rocky
//
// It deliberately has no code but its tests. The specification is
// doc/specs/rocky/approved/cyborg-nova-sched.rst of Cyborg.
package profiles
