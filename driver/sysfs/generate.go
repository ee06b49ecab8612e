package sysfs

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"weak"

	"github.com/gocyborg/gocyborg/driver"
)

// Directories of sysfs, relative to its mount.
const (
	dirPCIDevices  = "bus/pci/devices"
	dirPCIDrivers  = "bus/pci/drivers"
	dirMdevDevices = "bus/mdev/devices"
	dirMdevBus     = "class/mdev_bus"
	dirVFIO        = "bus/mdev/drivers/vfio_mdev"
	dirIOMMUGroups = "kernel/iommu_groups"
	mdevTypes      = "mdev_supported_types"
)

// function is one PCI function of a tree in memory, with what its files do not say.
type function struct {
	address driver.PCIAddress
	dir     string // below devices, without links
	id      identity
	kernel  string // the driver bound
	numa    *int
	group   *int
	types   []MdevType
	mixed   bool
	dev     *int // of class/fpga or class/fpga_region
	dfl     bool // the latter

	// of a physical function
	vfs            *VFs
	enabledAtStart int
	virtual        []*function
	vfGroup, vfDev int // the numbers of the first virtual function
	fpga           *FPGA
	loaded         map[int]string // function by FPGA port that was programmed since the start

	// of a virtual function
	makesVGPU bool
	vgpu      *vgpu // that it has
	held      bool  // a guest has it
}

// Generate returns the tree of the described machine, laid out with the links a kernel
// would make. The description is kept, and not to be changed. The error wraps
// ErrDescription and names the device and the field.
func Generate(d Description) (*Memory, error) {
	h, err := generate(d)
	if err != nil {
		return nil, err
	}
	return &Memory{described: &blueprint{Description: d, generated: weak.Make(h)}}, nil
}

func generate(d Description) (*hardware, error) {
	m := newHardware()
	for i, device := range d.Devices {
		if err := m.describe(device); err != nil {
			return nil, fmt.Errorf("%w: device %d %q: %w", ErrDescription, i, device.Address, err)
		}
	}
	for i, parent := range d.MdevParents {
		if err := m.describeParent(parent); err != nil {
			return nil, fmt.Errorf("%w: mdev parent %d %q: %w", ErrDescription, i, parent.Name, err)
		}
	}
	group, dev := m.lastGroup+1, m.lastFPGA+1
	for _, f := range m.sorted() {
		if f.vfs == nil {
			continue
		}
		if err := m.reserve(f); err != nil {
			return nil, fmt.Errorf("%w: device %s: %w", ErrDescription, f.address, err)
		}
		f.vfGroup, f.vfDev = group, dev
		group += f.vfs.Total
		if f.fpga != nil {
			dev += f.vfs.Total
		}
		if f.vfs.Driver != "" {
			m.root.makeDir(dirPCIDrivers + "/" + f.vfs.Driver)
		}
		m.setVFs(f, f.enabledAtStart)
	}
	return m, nil
}

// describe adds one physical function.
func (m *hardware) describe(d PCIDevice) error {
	f, err := m.newFunction(d)
	if err != nil {
		return err
	}
	m.add(f)
	m.addDescribed(f, d)
	if d.FPGA != nil {
		m.lastFPGA = max(m.lastFPGA, d.FPGA.Dev)
		if err := m.addFPGA(f, d.FPGA); err != nil {
			return err
		}
	}
	if f.group != nil {
		m.lastGroup = max(m.lastGroup, *f.group)
	}
	return nil
}

// describeParent adds one parent of mediated devices that is not a PCI function.
func (m *hardware) describeParent(d MdevParent) error {
	if err := d.check(); err != nil {
		return err
	}
	if m.parents[d.Name] != nil {
		return fmt.Errorf("name described twice")
	}
	m.addVirtualParent(d)
	return nil
}

func (m *hardware) newFunction(d PCIDevice) (*function, error) {
	id, err := d.identity()
	if err = cmp.Or(err, d.check()); err != nil {
		return nil, err
	}
	address, err := driver.ParsePCIAddress(d.Address)
	if err != nil {
		return nil, err
	}
	if m.functions[address] != nil {
		return nil, fmt.Errorf("address described twice")
	}
	above, err := m.above(address, d.Parent)
	if err != nil {
		return nil, err
	}
	f := &function{
		address: address, dir: above + "/" + address.String(), id: id, kernel: d.Driver,
		numa: d.NUMANode, group: d.IOMMUGroup, types: slices.Clone(d.MdevTypes), mixed: d.MixedMdevTypes,
	}
	if d.VFs != nil {
		f.vfs, f.enabledAtStart = d.VFs, d.VFs.Enabled
	}
	return f, nil
}

// above returns the parent of the function's directory: the directory of a bridge, or of the root bus.
func (m *hardware) above(a driver.PCIAddress, parent string) (string, error) {
	if parent == "" {
		return fmt.Sprintf("devices/pci%04x:%02x", a.Domain, a.Bus), nil
	}
	at, err := driver.ParsePCIAddress(parent)
	if err != nil {
		return "", fmt.Errorf("parent: %w", err)
	}
	bridge := m.functions[at]
	if bridge == nil {
		return "", fmt.Errorf("parent %s is not described before it", at)
	}
	return bridge.dir, nil
}

// add makes the directory of a function and the links that lead to it.
func (m *hardware) add(f *function) {
	m.functions[f.address] = f
	for name, text := range f.files() {
		m.file(f.dir+"/"+name, text)
	}
	m.link(f.dir+"/subsystem", "bus/pci")
	m.link(dirPCIDevices+"/"+f.address.String(), f.dir)
	if f.kernel != "" {
		m.root.makeDir(dirPCIDrivers + "/" + f.kernel)
		m.link(f.dir+"/driver", dirPCIDrivers+"/"+f.kernel)
		m.link(dirPCIDrivers+"/"+f.kernel+"/"+f.address.String(), f.dir)
	}
	if f.group != nil {
		group := dirIOMMUGroups + "/" + strconv.Itoa(*f.group)
		m.root.makeDir(group + "/devices")
		m.link(f.dir+"/iommu_group", group)
		m.link(group+"/devices/"+f.address.String(), f.dir)
	}
	m.addMdevParent(&mdevParent{name: f.address.String(), dir: f.dir, types: f.types, mixed: f.mixed})
}

// drop removes a function and its links.
func (m *hardware) drop(f *function) {
	address := f.address.String()
	delete(m.functions, f.address)
	delete(m.parents, address)
	m.root.remove(f.dir)
	m.root.remove(dirPCIDevices + "/" + address)
	m.root.remove(dirMdevBus + "/" + address)
	if f.kernel != "" {
		m.root.remove(dirPCIDrivers + "/" + f.kernel + "/" + address)
	}
	if f.dev != nil {
		m.root.remove(f.fpgaClass() + "/" + f.fpgaName())
	}
	if f.group != nil {
		m.root.remove(dirIOMMUGroups + "/" + strconv.Itoa(*f.group))
	}
}

// addDescribed adds what only physical functions have.
func (m *hardware) addDescribed(f *function, d PCIDevice) {
	if f.id.class>>8 == classVGA {
		m.file(f.dir+"/boot_vga", flag(d.BootVGA))
	}
	for _, i := range d.Interfaces {
		m.addInterface(f, i)
	}
	for _, disk := range d.Disks {
		m.addDisk(f, disk)
	}
	for _, c := range d.Clocks {
		m.addClock(f, c)
	}
	for name, text := range d.Files {
		m.file(f.dir+"/"+name, text)
	}
	if f.vfs != nil {
		m.file(f.dir+"/sriov_totalvfs", line(f.vfs.Total))
		m.file(f.dir+"/sriov_numvfs", line(0))
		m.setEffect(f.dir+"/sriov_numvfs", func(data []byte) error { return m.writeNumVFs(f, data) })
	}
}

const classVGA = 0x0300

func (m *hardware) addInterface(f *function, i Interface) {
	dir := f.dir + "/net/" + i.Name
	state, flags := "down", "0x1002"
	if i.Up {
		state, flags = "up", "0x1003"
	}
	m.file(dir+"/address", i.MAC+"\n")
	m.file(dir+"/operstate", state+"\n")
	m.file(dir+"/flags", flags+"\n")
	m.link(dir+"/device", f.dir)
	m.link("class/net/"+i.Name, dir)
}

// files are the plain files that every function has.
func (f *function) files() map[string]string {
	id := f.id
	numa := -1
	if f.numa != nil {
		numa = *f.numa
	}
	return map[string]string{
		"vendor":           fmt.Sprintf("0x%04x\n", id.vendor),
		"device":           fmt.Sprintf("0x%04x\n", id.product),
		"subsystem_vendor": fmt.Sprintf("0x%04x\n", id.subVendor),
		"subsystem_device": fmt.Sprintf("0x%04x\n", id.subProduct),
		"class":            fmt.Sprintf("0x%06x\n", id.class),
		"revision":         fmt.Sprintf("0x%02x\n", id.revision),
		"numa_node":        line(numa),
		"modalias":         id.modalias() + "\n",
		"uevent":           f.uevent(),
	}
}

func (f *function) uevent() string {
	var b strings.Builder
	if f.kernel != "" {
		fmt.Fprintf(&b, "DRIVER=%s\n", f.kernel)
	}
	fmt.Fprintf(&b, "PCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s\nMODALIAS=%s\n",
		f.id.class, f.id.vendor, f.id.product, f.id.subVendor, f.id.subProduct, f.address, f.id.modalias())
	return b.String()
}

func (id identity) modalias() string {
	return fmt.Sprintf("pci:v%08Xd%08Xsv%08Xsd%08Xbc%02Xsc%02Xi%02X", id.vendor, id.product,
		id.subVendor, id.subProduct, id.class>>16, id.class>>8&0xff, id.class&0xff)
}

// file, link and setEffect expect paths without links.
func (m *hardware) file(path, text string) { m.root.put(path, &node{data: []byte(text)}) }

func (m *hardware) link(path, target string) {
	dir, _, _ := cutLast(path)
	m.root.put(path, &node{target: relative(dir, target)})
}

func (m *hardware) setEffect(path string, write func([]byte) error) {
	if n, err := m.root.walk(path, false); err == nil {
		n.write = write
	}
}

// sorted returns the functions in the order of addresses.
func (m *hardware) sorted() []*function {
	return slices.SortedFunc(maps.Values(m.functions), func(a, b *function) int { return a.address.Compare(b.address) })
}

// setRefusal makes reading a file fail.
func (m *hardware) setRefusal(path string, err error) {
	if n, walkErr := m.root.walk(path, false); walkErr == nil {
		n.refusal = err
	}
}

func line(n int) string { return strconv.Itoa(n) + "\n" }

func flag(on bool) string {
	if on {
		return "1\n"
	}
	return "0\n"
}
