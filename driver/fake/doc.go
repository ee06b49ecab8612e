// Package fake is the driver without hardware: one FPGA with sixteen accelerators that
// no guest ever sees, since a TEST_PCI handle adds nothing to a domain.
//
// It reads nothing and does not program anything.
//
// It follows cyborg/accelerator/drivers/fake.py of Cyborg 2026.2 exactly, including the attribute
// key traits1 and handles whose device number is not padded.
//
//	report, err := fake.New("compute1").Discover(ctx)
//	// report.Devices[0].Deployables[0].Name == "compute1_FakeDevice"
package fake
