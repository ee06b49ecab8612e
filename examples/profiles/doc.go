// Package profiles has a device profile for each use case of the Rocky specification of
// the Cyborg-Nova scheduling, the flavor of the specification for it, and a cloud with
// their devices.
//
//	daas-hpts.json                  a device: a time card
//	daas-fpga.json                  a device: an FPGA region
//	bitstream-at-request-time.json  Cyborg writes a bitstream before the instance starts
//	bitstream-at-run-time.json      Cyborg writes a bitstream at the request of the instance
//	afaas-pre-programmed.json       a fixed function
//	afaas-function-id.json          Cyborg programs a function by its id
//	afaas-function-name.json        ... and by its name
//	local-memory.json               with memory of the device
//	several-groups.json             several devices in separate groups
//
//	flavors/NAME.json               the same as a flavor without a device profile
//	cloud.json                      the model of a cloud for all of them
//
// The groups of a profile are the argument of openstack accelerator device profile
// create; cysim lint checks the profile, and cysim lint --rocky makes it from the
// flavor. The tests of this package show how to use them:
//
//	cysim serve --model examples/profiles/cloud.json
//	cysim lint --flavor examples/profiles/flavors/afaas-function-id.json --rocky
//
// The package has only tests. The specification is
// doc/specs/rocky/approved/cyborg-nova-sched.rst of Cyborg.
package profiles
