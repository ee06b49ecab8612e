// Package drivertest is the test that every driver has to pass, those of this module and a
// vendor's own.
//
// It tests what holds for a driver of any hardware: it reads its tree and
// nothing else, two discoveries return the same, what it reports can be stored, no file of a function
// that is missing, unreadable, empty or garbled makes it fail, no function that it claims is lost
// without a reason, a name that is unreadable once takes nothing from what was reported, and mediated devices and snapshots survive what an agent does with
// them. Which device a driver reports, and how it is named, is for its own tests; Table
// tests that on synthetic machines, Unpack prepares captured ones.
//
//	func TestDriver(t *testing.T) {
//		drivertest.Run(t, drivertest.Case{
//			Hardware: sysfs.Description{Devices: []sysfs.PCIDevice{
//				{Address: "0000:3b:00.0", Vendor: "1d55", Product: "1000", Class: "1200"},
//			}},
//			New: func(tree driver.Tree) (driver.Driver, error) {
//				return shark.New(shark.Config{Host: "compute1"}, tree)
//			},
//		})
//	}
package drivertest
