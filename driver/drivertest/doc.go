// Package drivertest is the test that every driver must pass, both of this module and of a vendor.
//
// It tests what holds for a driver of any hardware:
//
//   - It reads its tree and nothing else. Two discoveries return the same, and so do Discover and DiscoverIn.
//   - What it reports can be stored, and names nothing twice.
//   - No file of a function that is missing, unreadable, empty or garbled makes it fail. No function that it claims is
//     lost without a reason, and a file that is temporarily unreadable removes nothing from the report.
//   - Mediated devices and vGPUs can be created and removed one by one, and the offer stays the same. An
//     impossible mediated device is refused. The mediated devices of a driver that is not a
//     driver.Machine and reads no tree are not checked.
//   - A programming that comes too late has written nothing (driver.ErrNotWritten).
//   - A dump is loaded as a whole. Preparing a load changes nothing, and neither does a refused dump.
//
// Which device a driver reports, and how it is named, is for its own tests; Table
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
