package sysfs

import (
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gocyborg/gocyborg/driver"
)

// vgpuFunctionOf returns the virtual function whose vGPU type a file has, if its name is that of
// driver.VGPUFile.
func vgpuFunctionOf(name string) (driver.PCIAddress, bool) {
	address, isPCI := strings.CutPrefix(name, dirPCIDevices+"/")
	address, isType := strings.CutSuffix(address, "/"+vgpuCurrent)
	function, err := driver.ParsePCIAddress(address)
	return function, isPCI && isType && err == nil && name == driver.VGPUFile(function)
}

// setVGPU records the type of a virtual function as the kernel would take it. It expects the lock
// held.
func (o *overlay) setVGPU(name string, function driver.PCIAddress, text string) error {
	data, err := o.readFile(name)
	if err != nil {
		return err
	}
	current := strings.TrimSpace(string(data))
	id, err := strconv.ParseUint(text, 10, 31)
	switch {
	case err != nil:
		return syscall.EINVAL
	case (id == 0) == (current == "0"):
		return syscall.EPERM
	}
	if id > 0 {
		types, err := driver.CreatableVGPUs(driver.NewView(o.base), function)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(types, func(t driver.VGPUType) bool { return t.ID == int(id) }) {
			return syscall.ENODEV
		}
	}
	o.vgpus[name] = int(id)
	return nil
}
