package sysfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gocyborg/gocyborg/driver"
)

// FPGA describes what the kernel shows of a PCI function with an FPGA: a management engine
// per region and a port per function of the user. The layout is that of Intel's own driver,
// or with DFL the kernel's.
type FPGA struct {
	// Dev is N of class/fpga/intel-fpga-dev.N, or of class/fpga_region/regionN. Ports moved to
	// virtual functions get their own numbers, above the described ones.
	Dev int `json:"dev"`
	// DFL shows the device feature list as the kernel does: class/fpga_region, with one
	// management engine and its fpga_manager. Ports are numbered across the machine.
	DFL bool `json:"dfl,omitempty"`
	// ManagerState is the state of the fpga_manager at the start, one of the kernel's words; empty
	// means unknown, as the kernel has it until the first programming.
	ManagerState string `json:"manager_state,omitempty"`
	// InterfaceID is the type of the only region, 32 hexadecimal digits; its management
	// engine has the number of the device.
	InterfaceID string `json:"interface_id,omitempty"`
	// Regions are the regions of an FPGA with several.
	Regions []FPGARegion `json:"regions,omitempty"`
	Ports   []FPGAPort   `json:"ports,omitempty"`
}

// FPGARegion is one partial reconfiguration region: intel-fpga-fme.N/pr/interface_id.
type FPGARegion struct {
	// Number is N of intel-fpga-fme.N.
	Number int `json:"number"`
	// InterfaceID is the type of the region, 32 hexadecimal digits.
	InterfaceID string `json:"interface_id"`
}

// FPGAPort is the place of one function: intel-fpga-port.N/afu_id.
type FPGAPort struct {
	// Number is N of intel-fpga-port.N.
	Number int `json:"number"`
	// AFUID is the function loaded at the start, 32 hexadecimal digits. Without it the file
	// afu_id does not exist until the port is programmed.
	AFUID string `json:"afu_id,omitempty"`
	// VF is the virtual function that the port belongs to while that exists, counted
	// from 1; 0 leaves it with the physical function.
	VF int `json:"vf,omitempty"`
}

const (
	dirFPGA         = "class/fpga"
	dirFPGARegion   = "class/fpga_region"
	dirFPGAManager  = "class/fpga_manager"
	dirPlatform     = "bus/platform/devices"
	maxDFL          = 1000 // containers have lower numbers than the regions of ports
	stateUnknown    = "unknown"
	stateProgrammed = "operating"
)

// managerStates are the states of the kernel's fpga_manager.
var managerStates = []string{
	stateUnknown, "power off", "power up", "reset", "firmware request", "firmware request error", "write init", "write init error",
	"write", "write error", "write complete", "write complete error", stateProgrammed,
}

// regions returns all regions, that of InterfaceID first.
func (g *FPGA) regions() []FPGARegion {
	if g.InterfaceID == "" {
		return g.Regions
	}
	return append([]FPGARegion{{Number: g.Dev, InterfaceID: g.InterfaceID}}, g.Regions...)
}

func (g *FPGA) check(vfs *VFs) error {
	if g == nil {
		return nil
	}
	if g.Dev < 0 {
		return fmt.Errorf("fpga: dev %d is negative", g.Dev)
	}
	seen := make(map[int]bool)
	for _, r := range g.regions() {
		if r.Number < 0 || seen[r.Number] {
			return fmt.Errorf("fpga: region %d is negative or described twice", r.Number)
		}
		seen[r.Number] = true
		if !fpgaID(r.InterfaceID) {
			return fmt.Errorf("fpga: region %d: interface_id %q is not 32 hexadecimal digits", r.Number, r.InterfaceID)
		}
	}
	switch {
	case !g.DFL && g.ManagerState != "":
		return errors.New("fpga: manager_state is for dfl")
	case g.DFL && (len(g.regions()) > 1 || g.Dev >= maxDFL):
		return fmt.Errorf("fpga: dfl: %d regions and dev %d, want one region and a number below %d", len(g.regions()), g.Dev, maxDFL)
	case g.ManagerState != "" && !slices.Contains(managerStates, g.ManagerState):
		return fmt.Errorf("fpga: unknown manager_state %q, want one of %q", g.ManagerState, managerStates)
	}
	return g.checkPorts(vfs)
}

func (g *FPGA) checkPorts(vfs *VFs) error {
	seen := make(map[int]bool)
	for _, p := range g.Ports {
		if p.Number < 0 || seen[p.Number] {
			return fmt.Errorf("fpga: port %d is negative or described twice", p.Number)
		}
		seen[p.Number] = true
		if p.AFUID != "" && !fpgaID(p.AFUID) {
			return fmt.Errorf("fpga: port %d: afu_id %q is not 32 hexadecimal digits", p.Number, p.AFUID)
		}
		if p.VF < 0 || p.VF > 0 && (vfs == nil || p.VF > vfs.Total) {
			return fmt.Errorf("fpga: port %d: there is no virtual function %d", p.Number, p.VF)
		}
	}
	return nil
}

// fpgaID says whether text is an id as Intel's driver writes them.
func fpgaID(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// addFPGA makes the class device of an FPGA. Its ports are placed with the VFs.
func (m *hardware) addFPGA(f *function, g *FPGA) error {
	if m.fpgas[g.Dev] {
		return fmt.Errorf("fpga: dev %d described twice", g.Dev)
	}
	m.fpgas[g.Dev] = true
	for _, p := range g.Ports {
		if g.DFL && m.ports[p.Number] {
			return fmt.Errorf("fpga: dfl: port %d described twice", p.Number)
		}
		m.ports[p.Number] = m.ports[p.Number] || g.DFL
	}
	f.fpga, f.loaded = g, make(map[int]string)
	m.addFPGADevice(f, g.Dev, g.DFL)
	for _, r := range g.regions() {
		if g.DFL {
			m.addDFLEngine(f, r)
			continue
		}
		dir := fmt.Sprintf("%s/intel-fpga-fme.%d", f.fpgaDir(), r.Number)
		m.file(dir+"/pr/interface_id", strings.ToLower(r.InterfaceID)+"\n")
		m.file(dir+"/ports_num", line(len(g.Ports)))
	}
	m.placePorts(f)
	return nil
}

// addFPGADevice makes the container of a physical or virtual function.
func (m *hardware) addFPGADevice(f *function, dev int, dfl bool) {
	f.dev, f.dfl = &dev, dfl
	m.link(f.fpgaDir()+"/device", f.dir)
	m.link(f.fpgaDir()+"/subsystem", f.fpgaClass())
	m.link(f.fpgaClass()+"/"+f.fpgaName(), f.fpgaDir())
	if dfl { // the region of the whole has no manager
		m.file(f.fpgaDir()+"/compat_id", "")
		m.setRefusal(f.fpgaDir()+"/compat_id", syscall.ENOENT)
	}
}

// fpgaClass, fpgaName and fpgaDir describe the container.
func (f *function) fpgaClass() string {
	if f.dfl {
		return dirFPGARegion
	}
	return dirFPGA
}

func (f *function) fpgaName() string {
	if f.dfl {
		return "region" + strconv.Itoa(*f.dev)
	}
	return "intel-fpga-dev." + strconv.Itoa(*f.dev)
}

func (f *function) fpgaDir() string {
	_, class, _ := cutLast(f.fpgaClass())
	return f.dir + "/" + class + "/" + f.fpgaName()
}

// addDFLEngine makes the management engine of a device feature list: with a region for each port, which
// has the type of all, and the manager that programs them.
func (m *hardware) addDFLEngine(f *function, r FPGARegion) {
	dir := fmt.Sprintf("%s/dfl-fme.%d", f.fpgaDir(), r.Number)
	m.link(fmt.Sprintf("%s/dfl-fme.%d", dirPlatform, r.Number), dir)
	m.file(dir+"/ports_num", line(len(f.fpga.Ports)))
	for _, p := range f.fpga.Ports {
		platform := fmt.Sprintf("%s/dfl-fme-region.%d", dir, p.Number)
		name := fmt.Sprintf("region%d", maxDFL+p.Number)
		m.file(platform+"/fpga_region/"+name+"/compat_id", strings.ToLower(r.InterfaceID)+"\n")
		m.link(platform+"/fpga_region/"+name+"/device", platform)
		m.link(dirFPGARegion+"/"+name, platform+"/fpga_region/"+name)
	}
	manager := f.managerDir(r)
	platform := strings.TrimSuffix(manager, fmt.Sprintf("/fpga_manager/fpga%d", *f.dev))
	m.file(manager+"/name", "DFL FME FPGA Manager\n")
	m.file(manager+"/state", "")
	m.file(manager+"/status", "")
	m.link(manager+"/device", platform)
	m.link(fmt.Sprintf("%s/fpga%d", dirFPGAManager, *f.dev), manager)
}

// placePorts puts each port below the function it belongs to at present, with the function that was
// programmed since the start or is described.
func (m *hardware) placePorts(f *function) {
	if f.fpga == nil {
		return
	}
	for _, p := range f.fpga.Ports {
		m.root.remove(f.portDir(p))
		at := f
		if p.VF > 0 && p.VF <= len(f.virtual) {
			at = f.virtual[p.VF-1]
		}
		if at.dev == nil {
			m.addFPGADevice(at, f.vfDev+p.VF-1, f.dfl)
		}
		dir := at.portDir(p)
		m.root.makeDir(dir)
		if id := cmp.Or(f.loaded[p.Number], p.AFUID); id != "" {
			m.file(dir+"/afu_id", strings.ToLower(id)+"\n")
		}
		if f.dfl {
			m.file(dir+"/id", line(slices.Index(f.fpga.Ports, p)))
			m.link(fmt.Sprintf("%s/dfl-port.%d", dirPlatform, p.Number), dir)
		}
	}
	state := cmp.Or(f.fpga.ManagerState, stateUnknown)
	if len(f.loaded) > 0 {
		state = stateProgrammed
	}
	for _, r := range f.fpga.regions() {
		m.setData(f.managerDir(r)+"/state", state+"\n") // only a device feature list has it
	}
}

// managerDir is the fpga_manager of a region.
func (f *function) managerDir(r FPGARegion) string {
	return fmt.Sprintf("%s/dfl-fme.%d/dfl-fme-mgr.%d/fpga_manager/fpga%d", f.fpgaDir(), r.Number, r.Number, *f.dev)
}

func (f *function) portDir(p FPGAPort) string {
	if f.dfl {
		return fmt.Sprintf("%s/dfl-port.%d", f.fpgaDir(), p.Number)
	}
	return fmt.Sprintf("%s/intel-fpga-port.%d", f.fpgaDir(), p.Number)
}

// Program loads a function into a port of an FPGA, as Intel's fpgaconf does; afu_id shows it. The
// address is the address of the physical function, or of the virtual function that the port is
// moved to; the id has 32 hexadecimal digits, in either case. A restart of the host loads what
// was described. Errors wrap driver.ErrPCIAddress, ErrNoPort, or fs.ErrInvalid for the id.
func (m *Memory) Program(address string, port int, afuID string) error {
	at, err := driver.ParsePCIAddress(address)
	if err != nil {
		return fmt.Errorf("sysfs: program: %w", err)
	}
	if !fpgaID(afuID) {
		return fmt.Errorf("sysfs: program %s: afu_id %q: %w", address, afuID, fs.ErrInvalid)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.change()
	f := h.portOwner(at, port)
	if f == nil {
		return fmt.Errorf("%w: %s port %d", ErrNoPort, address, port)
	}
	f.loaded[port] = afuID
	h.placePorts(f)
	return nil
}

// portOwner returns the physical function with the port, or nil.
func (m *hardware) portOwner(at driver.PCIAddress, port int) *function {
	for _, f := range m.functions {
		if f.fpga == nil {
			continue
		}
		i := slices.IndexFunc(f.fpga.Ports, func(p FPGAPort) bool { return p.Number == port })
		if i < 0 {
			continue
		}
		vf := f.fpga.Ports[i].VF
		if f.address == at || vf > 0 && vf <= len(f.virtual) && f.virtual[vf-1].address == at {
			return f
		}
	}
	return nil
}
