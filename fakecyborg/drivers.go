package fakecyborg

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// The drivers of this module whose reports differ from release to release.
const (
	driverNVIDIA = "nvidia"
	driverPCI    = "pci"
)

// nvidiaTraits are the traits that the driver of NVIDIA GPUs reports.
type nvidiaTraits string

const (
	// nvidiaProduct is the form of whole GPUs (cyborg/accelerator/drivers/gpu/utils.py of Zed).
	nvidiaProduct nvidiaTraits = "`CUSTOM_GPU_NVIDIA`, `CUSTOM_GPU_PRODUCT_ID_<PID>`"
	nvidiaOwner   nvidiaTraits = "`OWNER_CYBORG`, `CUSTOM_NVIDIA_<PID>[_<TYPE>]`"
)

// pciDriver is what the driver of any PCI devices does.
type pciDriver string

const (
	pciMissing pciDriver = "-"
	// pciBroken fails on each entry of the whitelist (cyborg/accelerator/drivers/pci/sysinfo.py); a defect.
	pciBroken  pciDriver = "fails with any whitelist, with the report of its host"
	pciUnowned pciDriver = "reports devices without OWNER_CYBORG"
	pciOwned   pciDriver = "reports devices with OWNER_CYBORG"
)

// driverReport is what a driver of the release reports where that of this module reports found.
func (s *Server) driverReport(name string, found driver.Report) driver.Report {
	switch {
	case name == driverNVIDIA && s.release.NVIDIATraits == nvidiaProduct:
		return withDevices(found, wholeGPU)
	case name == driverPCI && s.release.PCIDriver == pciMissing:
		found.Devices, found.Err = nil, fmt.Errorf("release %s of Cyborg does not have pci_driver", s.cfg.Release)
	case name == driverPCI && s.release.PCIDriver == pciBroken && len(found.Devices)+len(found.LeftOut)+len(found.Problems) > 0:
		found.Devices, found.Err = nil, errors.New("TypeError: string indices must be integers")
	case name == driverPCI && s.release.PCIDriver != pciOwned:
		return withDevices(found, withoutOwner)
	}
	return found
}

// withDevices is a report with each device changed.
func withDevices(found driver.Report, change func(*driver.Device)) driver.Report {
	found.Devices = slices.Clone(found.Devices)
	for i := range found.Devices {
		found.Devices[i] = found.Devices[i].Clone()
		change(&found.Devices[i])
	}
	return found
}

// wholeGPU makes a GPU, divided or not, one that guests get as a whole, with the traits of Cyborg 9 and 10.0.
func wholeGPU(d *driver.Device) {
	if len(d.Deployables) == 0 {
		return
	}
	part := d.Deployables[0]
	traits := []string{"CUSTOM_GPU_NVIDIA", "CUSTOM_GPU_PRODUCT_ID_" + strings.ToUpper(d.ProductID())}
	for _, trait := range part.Traits {
		if trait != driver.TraitOwnerCyborg && !strings.HasPrefix(trait, "CUSTOM_NVIDIA_") && !slices.Contains(traits, trait) {
			traits = append(traits, trait)
		}
	}
	part.Class, part.NumAccelerators, part.Traits = "PGPU", 1, traits
	part.AttachHandles = []driver.AttachHandle{{Type: driver.HandlePCI, Info: d.ControlPath.Info}}
	d.Deployables = []driver.Deployable{part}
}

func withoutOwner(d *driver.Device) {
	for i := range d.Deployables {
		part := &d.Deployables[i]
		part.Traits = slices.DeleteFunc(part.Traits, func(trait string) bool { return trait == driver.TraitOwnerCyborg })
	}
}
