// Package verbatim is the driver of devices that are described instead of
// found: what a model file or a test says is there is reported as it stands.
//
// There is no hardware behind them. Making a mediated device on one of them, or
// writing an image to an FPGA, is therefore only noted, so that everything above
// the driver can be tried; it deliberately limits nothing. No driver of upstream
// corresponds to it. What is noted can be dumped and loaded: it is a driver.Snapshotter.
//
//	cards := verbatim.New(devices)
//	err := server.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{cards}})
package verbatim
