package fpga

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// Errors to compare with errors.Is: the causes of a refusal to program, and of a problem.
var (
	// ErrBitstream: the image is no image, or not one for the region.
	ErrBitstream = errors.New("fpga: bad image")
	// ErrNoDevice: no card of the driver's is at the control path.
	ErrNoDevice = errors.New("fpga: no such device")
	// ErrPreprogrammed: the configuration says that the region is not to be programmed.
	ErrPreprogrammed = errors.New("fpga: pre-programmed")
	// ErrRegion: it is not clear which region is meant.
	ErrRegion = errors.New("fpga: unclear region")
	// ErrNoLoader: Config.Load is not set, and the tree is not in memory.
	ErrNoLoader = errors.New("fpga: no loader")
	// ErrRegionType is the cause of the problem with cards of two products that have regions
	// of one type: the Rocky specification rules that out, and an image for the one would be
	// taken for the other.
	ErrRegionType = errors.New("fpga: one region type in two products")
)

// Job is one image to be written to one region.
type Job struct {
	// Vendor is "intel" or "xilinx".
	Vendor string
	// Address is the function that is programmed: the physical function of Intel's
	// cards, the management function of those of Xilinx.
	Address driver.PCIAddress
	// Region is the number of the region on the card, from 0, and RegionType its type,
	// 32 hexadecimal digits or empty.
	Region     int
	RegionType string
	// Ports are the numbers N of intel-fpga-port.N in the region.
	Ports []int
	// Image is what is to be written. Functions are the ids of those in it, 32
	// hexadecimal digits each; there are none if the image does not say.
	Image     []byte
	Functions []string
}

// Command is the command line of the vendor's tool for the job, with the image in a file:
// that of upstream's drivers, but for the address of a Xilinx card, where upstream writes
// a colon before the function and the tool wants a dot, and for Intel cards in another
// PCI domain than 0, which upstream cannot name. It is for Config.Load; nothing here runs it.
func (j Job) Command(file string) []string {
	a := j.Address
	if j.Vendor == "xilinx" {
		return []string{"/opt/xilinx/xrt/bin/xbmgmt", "program", "--device", a.String(), "--base", "--image", file}
	}
	args := []string{"/usr/bin/fpgaconf"}
	if a.Domain != 0 {
		args = append(args, "--segment", fmt.Sprintf("0x%04x", a.Domain))
	}
	return append(args, "--bus", fmt.Sprintf("0x%02x", a.Bus), "--device", fmt.Sprintf("0x%02x", a.Device),
		"--function", fmt.Sprintf("0x%x", a.Function), file)
}

// programmable is a tree in which a card can be programmed: a function is loaded into a
// port, and afu_id shows it afterwards. Trees in memory are.
type programmable interface {
	Program(address string, port int, function string) error
}

// Program writes an image to the card at the control path, which is that of its physical
// function. The name of the deployable selects the region; without one the image must name
// the type of exactly one region of a card with several. The error wraps ErrNoDevice,
// ErrPreprogrammed, ErrRegion, ErrBitstream or ErrNoLoader, or is that of Config.Load; with
// each of those named nothing was written.
func (d *Intel) Program(ctx context.Context, path driver.ControlPath, deployable string, image []byte) error {
	return d.program(path, func(at driver.PCIAddress) error {
		job, err := d.plan(ctx, at, deployable, image)
		if err != nil {
			return err
		}
		return d.write(ctx, job, job.load)
	})
}

// program programs the card at a control path; errors name both.
func (b *base) program(path driver.ControlPath, write func(driver.PCIAddress) error) error {
	at, err := driver.PCIAddressOf(path.Info)
	if err != nil {
		return fmt.Errorf("%s: program: %w: %w", b.Name(), ErrNoDevice, err)
	}
	if err := write(at); err != nil {
		return fmt.Errorf("%s: program %s: %w", b.Name(), at, err)
	}
	return nil
}

// plan reads the card and finds the region that is meant.
func (d *Intel) plan(ctx context.Context, at driver.PCIAddress, deployable string, image []byte) (Job, error) {
	b, err := d.find(ctx, at)
	if err != nil {
		return Job{}, err
	}
	regions, err := d.writable(b, deployable)
	if err != nil {
		return Job{}, err
	}
	bits, err := parseBitstream(image)
	if err != nil && (d.settings.Load == nil || len(image) == 0) {
		return Job{}, err // a tool does its own checks
	}
	if regions, err = d.fitting(b, bits, regions); err != nil {
		return Job{}, err
	}
	if len(regions) > 1 {
		return Job{}, fmt.Errorf("%w: the image fits regions %s", ErrRegion, numbers(regions))
	}
	job := Job{Vendor: "intel", Address: at, Region: regions[0].number, RegionType: regions[0].kind, Image: image, Functions: bits.Functions}
	for _, s := range regions[0].slots {
		if s.visible {
			job.Ports = append(job.Ports, s.number)
		}
	}
	return job, nil
}

// find reads the hardware as it is now.
func (d *Intel) find(ctx context.Context, at driver.PCIAddress) (*board, error) {
	v, err := d.boards(ctx, driver.NewView(d.Tree()))
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(v.boards, func(b *board) bool { return b.Address == at })
	if i >= 0 && !v.boards[i].fault {
		return v.boards[i], v.boards[i].unclear
	}
	for _, p := range v.Report.Problems {
		if p.Address == at.String() {
			return nil, fmt.Errorf("%w: %w", ErrNoDevice, p)
		}
	}
	return nil, fmt.Errorf("%w: no FPGA of this driver is there", ErrNoDevice)
}

// writable are the regions of a card, or of one of its deployables, that may be
// programmed.
func (d *Intel) writable(b *board, deployable string) ([]region, error) {
	var list []region
	named := deployable == ""
	for _, r := range b.regions {
		switch {
		case deployable != "" && !d.stands(deployable, b, r):
			continue
		case !d.settings.programmable(b.Address, r.number):
			named = true
			continue
		case d.settings.SeparateFunctions && b.divided() && r.reached() > 1:
			return nil, fmt.Errorf("%w: region %d has %d functions that are offered one by one", ErrRegion, r.number, r.reached())
		}
		named = true
		list = append(list, r)
	}
	switch {
	case !named:
		return nil, fmt.Errorf("%w: the card has no deployable %s", ErrRegion, deployable)
	case len(list) == 0:
		return nil, fmt.Errorf("%w: the configuration says so", ErrPreprogrammed)
	}
	return list, nil
}

// stands reports whether a deployable is that of a region, or of the whole card.
func (d *Intel) stands(deployable string, b *board, r region) bool {
	name, ok := strings.CutPrefix(deployable, d.settings.Host+"_")
	if !ok {
		return false
	}
	if name == b.Address.String() {
		return !b.divided() || len(b.regions) == 1
	}
	if d.settings.SeparateFunctions {
		return slices.ContainsFunc(r.slots, func(s slot) bool { return s.at.String() == name })
	}
	return name == fmt.Sprintf("%s_region%d", b.Address, r.number)
}

// fits reports whether an image was made for a region. One that does not say fits all,
// and a region of no known type takes all.
func (b bitstream) fits(r region) bool {
	return b.RegionType == "" || r.kind == "" || r.kind == b.RegionType
}

// fitting are the regions that an image was made for.
func (d *Intel) fitting(b *board, bits bitstream, regions []region) ([]region, error) {
	fit := slices.DeleteFunc(slices.Clone(regions), func(r region) bool { return !bits.fits(r) })
	if len(fit) > 0 {
		return fit, nil
	}
	for _, r := range b.regions {
		if bits.fits(r) && !d.settings.programmable(b.Address, r.number) {
			return nil, fmt.Errorf("%w: the configuration says so of region %d, for which the image was made", ErrPreprogrammed, r.number)
		}
	}
	var kinds []string
	for _, r := range regions {
		kinds = append(kinds, r.kind)
	}
	return nil, fmt.Errorf("%w: it is for regions of type %s, and would go to one of type %s", ErrBitstream, bits.RegionType, strings.Join(kinds, ", "))
}

func numbers(regions []region) string {
	var list []string
	for _, r := range regions {
		list = append(list, fmt.Sprint(r.number))
	}
	return strings.Join(list, " and ")
}

// write gives the job to Config.Load, or simulates it on a tree that can be programmed.
func (b *base) write(ctx context.Context, job Job, simulate func(programmable) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.settings.Load != nil {
		return b.settings.Load(ctx, job)
	}
	tree, ok := b.Tree().(programmable)
	if !ok {
		return fmt.Errorf("%w: hardware is programmed by %s, and this driver was given nothing to run it with", ErrNoLoader, job.Command("IMAGE")[0])
	}
	return simulate(tree)
}

// load puts the functions of an image into the ports of its region.
func (j Job) load(tree programmable) error {
	if len(j.Ports) == 0 {
		return fmt.Errorf("%w: the kernel shows no port of region %d", ErrRegion, j.Region)
	}
	for i, port := range j.Ports {
		if err := tree.Program(j.Address.String(), port, j.Functions[min(i, len(j.Functions)-1)]); err != nil {
			return fmt.Errorf("port %d: %w", port, err)
		}
	}
	return nil
}
