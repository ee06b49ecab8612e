// Package command is a driver in any language: a program that discovers devices, programs them, and
// creates and removes mediated devices.
//
// The program is called with one of the verbs discover, program, create_mdev and remove_mdev, and a
// JSON object on its standard input:
//
//	discover     {"host": "compute1"}
//	program      {"host": "compute1", "controlpath_id": {...}, "deployable": "compute1_region0", "image_file": "/tmp/..."}
//	create_mdev  {"host": "compute1", "uuid": "...", "parent": "0000:3b:00.0", "type": "acme-1"}
//	remove_mdev  the same
//
// It exits with status 0 on success. Status 3 means that it could not read the hardware: the
// agent keeps the last report. Any other status is a failure, and the last lines of its standard
// error are the text of the error. discover writes to its standard output
//
//   - a list of devices in the form of upstream's driver objects, like [driver.Device], or
//   - {"rocky": {"0000:3b:00.0": {...}}}, the dictionary of the agent-driver API of Rocky's
//     specifications, by the PCI address of each device: type, vendor, product, and regions with
//     region-type-uuid, bitstream-id and function-uuid. The specification adds these keys to the
//     keys of earlier drivers. The only earlier key that is read is devices of a region, the PCI
//     function that leads to it; the others are ignored, with a warning. If there are several
//     regions and each names its function, each region is a deployable, HOST_ADDRESS_regionN.
//     Otherwise the device is one unit with all of its regions.
//
// An entry that cannot be read is a problem of the report, and the other devices are reported.
//
// No shell is involved. The environment has PATH only. A call takes at most 30 seconds, program 600;
// then the program is killed with all of its children. Output of more than 4 MiB is refused. The
// program is a file with an absolute path that only its owner can write, and only discover is
// called unless Config.Writes is set.
package command
