// Package drivertest is the test that every driver has to pass, those of this module and a
// vendor's own.
//
// It tests what holds for a driver of any hardware:
//
//   - It reads its tree and nothing else. Two discoveries return the same, and so do Discover and DiscoverIn.
//   - What it reports can be stored, and names nothing twice.
//   - No file of a function that is missing, unreadable, empty or garbled makes it fail. No function that it claims is
//     lost without a reason, and a name that is unreadable once takes nothing from what was reported.
//   - Mediated devices and vGPUs come and go, each alone, and what is offered stays the same. An impossible mediated
//     device is refused. Those of a driver that is no driver.Machine and reads no tree are not looked for.
//   - A programming that comes too late has written nothing (driver.ErrNotWritten).
//   - A dump is loaded as a whole, when it is loaded and not when it is prepared; one that is refused changes nothing.
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
