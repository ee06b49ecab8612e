// Package verbatim is the driver of devices that a model file or a test describes: it reports
// them unchanged.
//
// They have no hardware: the driver only records the creation of a mediated device and the
// programming of an FPGA, and refuses none. No driver of upstream corresponds to it. The
// records can be dumped and loaded: it is a driver.Snapshotter.
//
//	cards := verbatim.New(devices)
//	err := server.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{cards}})
package verbatim
