package nvidia

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	name       = "nvidia"
	driverName = "NVIDIA" // what the agent finds the driver by
	vendorID   = 0x10de

	classVGA = 0x0300
	class3D  = 0x0302
)

// Driver finds the NVIDIA GPUs of one host.
type Driver struct {
	*driver.PCIDriver
	driver.MdevParents
	driver.VGPUFunctions
	config Config
	types  map[string]string     // mdev type by address of the card
	vgpus  map[string][]VGPUType // types without mediated devices by address of the card
}

// kernelDrivers may be bound to a card that is offered, functionDrivers to a virtual function that is
// offered as a vGPU: that of NVIDIA's, and the one proposed for the kernel.
var (
	kernelDrivers   = []string{"nvidia", "nouveau"}
	functionDrivers = []string{"nvidia", "nvidia-vgpu-vfio", "nvidia_vgpu_vfio"}
)

// New returns the driver for a host's tree. The error wraps driver.ErrConfig; where the vGPU
// configuration is at fault its text is upstream's.
func New(config Config, tree driver.Tree) (*Driver, error) {
	types, vgpus, err := config.check()
	if err != nil {
		return nil, err
	}
	d := &Driver{
		MdevParents: driver.NewMdevParents(tree, types), VGPUFunctions: driver.NewVGPUFunctions(tree),
		config: config, types: types, vgpus: vgpus,
	}
	d.PCIDriver, err = driver.NewPCIDriver(driver.PCISpec{
		Driver: name, Host: config.Host, Policy: config.Policy, Separate: true,
		Claims: []driver.Claim{
			{Vendor: vendorID, Class: classVGA, Why: "NVIDIA VGA compatible controller"},
			{Vendor: vendorID, Class: class3D, Why: "NVIDIA 3D controller"},
		},
		KernelDrivers: func(driver.Unit) []string { return kernelDrivers },
		Vet:           d.vet,
		Divide:        d.divide,
		Device:        device,
		Subject:       wholeGPU,
		Complete:      func(_ driver.Unit, p *driver.Deployable) { p.DriverName = driverName },
		Finish:        d.reportMissing,
	}, tree)
	return d, err
}

// vet refuses virtual functions: they are not whole GPUs.
func (d *Driver) vet(u driver.Unit) string {
	switch {
	case d.isVGPU(u): // offered with its card
		return ""
	case u.IsVirtual && d.config.FilterSRIOVVFs:
		return "virtual function, and filter_sriov_vfs is set"
	case u.IsVirtual && d.types[u.Address.String()] == "":
		return fmt.Sprintf("virtual function of %s: no whole GPU", u.VirtualOf)
	}
	return ""
}

// isVGPU reports whether a function is a virtual one of a card that is divided without mediated devices.
func (d *Driver) isVGPU(u driver.Unit) bool {
	return u.Physical != nil && len(d.vgpus[u.Physical.Address.String()]) > 0
}

// device is a card with its class as lspci writes it.
func device(u driver.Unit) driver.Device {
	controller := "VGA compatible controller"
	if u.DeviceClass() == class3D {
		controller = "3D controller"
	}
	return driver.Device{
		Vendor:          u.VendorID(),
		Model:           model(u.Product),
		Type:            driver.TypeGPU,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "%s", "controller": "%s"}`, u.ProductID(), controller),
		VendorBoardInfo: `{"vendor_info": "gpu_vb_info"}`,
	}
}

func wholeGPU(u driver.Unit) driver.Subject {
	s := subject(u.PCIFunction)
	s.ShippedClass, s.Shipped = "PGPU", []string{driver.TraitOwnerCyborg, "CUSTOM_NVIDIA_" + strings.ToUpper(u.ProductID())}
	return s
}

// divide reports a GPU that is configured for vGPUs.
func (d *Driver) divide(scan *driver.PCIScan, u *driver.Unit) bool {
	if d.isVGPU(*u) {
		return true
	}
	if types := d.vgpus[u.Address.String()]; len(types) > 0 {
		d.divideFunctions(scan, u, types)
		return true
	}
	typ := d.types[u.Address.String()]
	if typ == "" {
		return false
	}
	if reason := d.config.HostUse(u.PCIFunction, u.PCIState); reason != "" {
		scan.LeaveOut(u, "%s", reason)
		return true
	}
	if card := withoutMdevs(u); card != nil {
		scan.Problem(u, fmt.Errorf("%w: the card makes no mediated devices: type %s needs max_instances and vgpu_name, and the address %s",
			driver.ErrConfig, typ, card.Address))
		return true
	}
	device := device(*u)
	device.ControlPath = u.Address.ControlPath()
	capacity, err := d.Capacity(scan.View, device.ControlPath.Address())
	if err == nil && len(capacity.Handles) == 0 {
		scan.LeaveOut(u, "no instance of vGPU type %s is available, and none exists", typ)
		return true
	}
	var part driver.Deployable
	if err == nil {
		part, err = d.deployable(*u, capacity)
	}
	if err != nil {
		scan.Problem(u, err)
		return true
	}
	device.Deployables = []driver.Deployable{part}
	if scan.Offer(u, device); capacity.Foreign > 0 && !u.Unreadable {
		scan.Warn(u, "mediated devices of other types (%d) lower the capacity", capacity.Foreign)
	}
	return true
}

// withoutMdevs is the card of a function if its virtual functions have vGPU types, else nil.
func withoutMdevs(u *driver.Unit) *driver.Unit {
	card := cmp.Or(u.Physical, u)
	if slices.ContainsFunc(append(slices.Clip(card.Virtual), u), func(vf *driver.Unit) bool { return vf.HasVGPUTypes }) {
		return card
	}
	return nil
}

// deployable is a divided GPU. The type's part of the trait is the second word of its name: T4-1B of
// "GRID T4-1B". A name of one word is used as a whole.
func (d *Driver) deployable(u driver.Unit, capacity driver.MdevCapacity) (driver.Deployable, error) {
	var class string
	var traits []string
	err := fs.ErrNotExist
	if words := strings.Fields(capacity.Name); len(words) > 0 {
		class, traits, err = d.vgpuNames(u.PCIFunction, words[min(1, len(words)-1)])
	}
	if err != nil {
		return driver.Deployable{}, driver.Problem{File: fmt.Sprintf("%s/mdev_supported_types/%s/name", u.Dir(), d.types[u.Address.String()]), Err: err}
	}
	return driver.Deployable{
		Name: d.config.Host + "_" + u.Address.String(), NumAccelerators: len(capacity.Handles), DriverName: driverName,
		Class: class, Traits: traits, AttachHandles: capacity.Handles,
	}, nil
}

// subject returns the parts of the names of a card.
func subject(f driver.PCIFunction) driver.Subject {
	return driver.Subject{Type: driver.TypeGPU, Vendor: name, Product: family(f.Product), ProductID: f.ProductID()}
}

// reportMissing reports the cards that are configured for vGPUs and are not there. One
// that has a problem already is there.
func (d *Driver) reportMissing(scan *driver.PCIScan) {
	known := make(map[string]bool)
	for _, u := range scan.Units {
		known[u.Address.String()] = true
	}
	for _, p := range scan.Report.Problems {
		known[p.Address] = true
	}
	missing := maps.Clone(d.types)
	for address, types := range d.vgpus {
		missing[address] = types[0].Name
	}
	for _, address := range slices.Sorted(maps.Keys(missing)) {
		if !known[address] {
			scan.Report.AddProblem(address, fmt.Errorf("%w: configured for vGPU type %s, and no NVIDIA GPU is at this address", driver.ErrConfig, missing[address]))
		}
	}
}
