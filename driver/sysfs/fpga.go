package sysfs

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// FPGA describes what Intel's FPGA driver shows of a PCI function: a management engine
// per region and a port per function of the user.
type FPGA struct {
	// Dev is N of class/fpga/intel-fpga-dev.N. The ports moved to virtual functions get
	// numbers of their own, above all those described.
	Dev int `json:"dev"`
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
	// AFUID is the function loaded at the start, 32 hexadecimal digits. Without one
	// there is no file afu_id until the port is programmed.
	AFUID string `json:"afu_id,omitempty"`
	// VF is the virtual function that the port belongs to while that exists, counted
	// from 1; 0 leaves it with the physical function.
	VF int `json:"vf,omitempty"`
}

const dirFPGA = "class/fpga"

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
	f.fpga, f.loaded = g, make(map[int]string)
	m.addFPGADevice(f, g.Dev)
	for _, r := range g.regions() {
		dir := fmt.Sprintf("%s/intel-fpga-fme.%d", f.fpgaDir(), r.Number)
		m.file(dir+"/pr/interface_id", strings.ToLower(r.InterfaceID)+"\n")
		m.file(dir+"/ports_num", line(len(g.Ports)))
	}
	m.reload(f)
	m.placePorts(f)
	return nil
}

// addFPGADevice makes intel-fpga-dev.N of a physical or virtual function.
func (m *hardware) addFPGADevice(f *function, dev int) {
	f.dev = &dev
	m.link(f.fpgaDir()+"/device", f.dir)
	m.link(f.fpgaDir()+"/subsystem", dirFPGA)
	m.link(dirFPGA+"/intel-fpga-dev."+strconv.Itoa(dev), f.fpgaDir())
}

func (f *function) fpgaDir() string {
	return f.dir + "/fpga/intel-fpga-dev." + strconv.Itoa(*f.dev)
}

// reload puts the functions into the ports that they have at the start.
func (m *hardware) reload(f *function) {
	clear(f.loaded)
	for _, p := range f.fpga.Ports {
		f.loaded[p.Number] = p.AFUID
	}
}

// placePorts puts each port below the function it belongs to at present.
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
			m.addFPGADevice(at, f.vfDev+p.VF-1)
		}
		dir := at.portDir(p)
		m.root.makeDir(dir)
		if id := f.loaded[p.Number]; id != "" {
			m.file(dir+"/afu_id", strings.ToLower(id)+"\n")
		}
	}
}

func (f *function) portDir(p FPGAPort) string {
	return fmt.Sprintf("%s/intel-fpga-port.%d", f.fpgaDir(), p.Number)
}

// Program loads a function into a port of an FPGA: it is what Intel's fpgaconf brings
// about, and what tests of programming look for in afu_id. The address is that of the
// physical function, or of the virtual function that the port is moved to; the id has 32
// hexadecimal digits, in either case. A restart of the host loads what was described.
// Errors wrap driver.ErrPCIAddress, ErrNoPort, or fs.ErrInvalid for the id.
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
