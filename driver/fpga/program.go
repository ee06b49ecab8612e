package fpga

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/program"
)

// Errors to compare with errors.Is: the causes of a refusal to program, and of a problem.
var (
	// ErrBitstream: the image is invalid, or not for the region.
	ErrBitstream error = refusal("fpga: bad image")
	// ErrNoDevice: no card of the driver's is at the control path.
	ErrNoDevice error = refusal("fpga: no such device")
	// ErrPreprogrammed: the configuration says that the region is not to be programmed, or the
	// kernel shows no way to.
	ErrPreprogrammed error = refusal("fpga: pre-programmed")
	// ErrRegion: it is not clear which region is meant.
	ErrRegion error = refusal("fpga: unclear region")
	// ErrNoLoader: Config.BitstreamLoader is not set, and the card is not one of a tree in memory
	// that does without.
	ErrNoLoader error = refusal("fpga: no loader")
	// ErrRegionType is the cause of the problem with cards of two products that have regions
	// of one type: the Rocky specification rules that out, and an image for the one would be
	// taken for the other.
	ErrRegionType = errors.New("fpga: one region type in two products")
)

// refusal is an error before anything was written.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// Is implements the interface of errors.Is.
func (refusal) Is(target error) bool { return target == driver.ErrNotWritten }

// job is one image to be written to one region. The loader gets it as JSON.
type job struct {
	Host        string             `json:"host"`
	ControlPath driver.ControlPath `json:"controlpath_id"`
	Deployable  string             `json:"deployable"`
	File        string             `json:"image_file"`
	// Vendor is "intel" or "xilinx".
	Vendor string `json:"vendor"`
	// Address is the function that is programmed: the physical function of Intel's
	// cards, the management function of those of Xilinx.
	Address string `json:"address"`
	// Region is the number of the region on the card, from 0, and RegionType its type.
	Region     int    `json:"region"`
	RegionType string `json:"region_id,omitempty"`
	// Ports are the numbers N of intel-fpga-port.N, or with a device feature list of dfl-port.N,
	// in the region.
	Ports []int `json:"ports,omitempty"`
	// Functions are the ids of the functions in the image, empty if the image does not list them.
	Functions []string `json:"function_ids,omitempty"`

	image []byte
	dfl   bool
}

// programmable is a tree in which a card can be programmed: a function is loaded into a
// port, and afu_id shows it afterwards. Trees in memory are.
type programmable interface {
	Program(address string, port int, function string) error
}

// Program writes an image to the card at the control path, which names its physical function. The
// name of the deployable selects the region; without one the image must name the type of exactly
// one region of a card with several. After the loader has ended, Program reads the functions and
// compares them with the image. The error wraps ErrNoDevice, ErrPreprogrammed, ErrRegion,
// ErrBitstream or ErrNoLoader, or it is the error of the loader. Unless the loader has started,
// it matches driver.ErrNotWritten.
func (d *Intel) Program(ctx context.Context, path driver.ControlPath, deployable string, image []byte) error {
	plan := func(at driver.PCIAddress) (job, error) { return d.plan(ctx, at, deployable, image) }
	return d.program(path, plan, func(at driver.PCIAddress, j job) error {
		err := d.write(ctx, j, j.load)
		if err == nil && d.settings.BitstreamLoader != "" {
			err = d.verify(ctx, at, j)
		}
		return err
	})
}

// verify reads the functions that were loaded.
func (d *Intel) verify(ctx context.Context, at driver.PCIAddress, j job) error {
	b, err := d.find(ctx, at)
	if err != nil {
		return fmt.Errorf("after the loader: %s", err) //nolint:errorlint // something was written
	}
	if len(b.regions) <= j.Region {
		return fmt.Errorf("after the loader: region %d no longer exists", j.Region)
	}
	r := b.regions[j.Region]
	if r.failed != "" {
		return fmt.Errorf("after the loader: region %d: %s", j.Region, r.failed)
	}
	for i, port := range j.Ports {
		n := slices.IndexFunc(r.slots, func(s slot) bool { return s.visible && s.number == port })
		switch want := j.function(i); {
		case want == "":
		case n < 0:
			return fmt.Errorf("after the loader: port %d no longer exists", port)
		case r.slots[n].function != want:
			return fmt.Errorf("after the loader: port %d has the function %q, and the image %s", port, r.slots[n].function, want)
		}
	}
	return nil
}

// function returns the function of the image for a port of the region.
func (j job) function(port int) string {
	if len(j.Functions) == 0 {
		return ""
	}
	return j.Functions[min(port, len(j.Functions)-1)]
}

// program plans what is written to the card at a control path, and writes it. Errors name both;
// errors of the plan match driver.ErrNotWritten.
func (b *base) program(path driver.ControlPath, plan func(driver.PCIAddress) (job, error), write func(driver.PCIAddress, job) error) error {
	at, err := driver.PCIAddressOf(path.Info)
	if err != nil {
		return fmt.Errorf("%s: program: %w: %w", b.Name(), ErrNoDevice, err)
	}
	j, err := plan(at)
	switch {
	case err == nil:
		j.ControlPath = path
		err = write(at, j)
	case !errors.Is(err, driver.ErrNotWritten): // from the tree or ctx
		err = fmt.Errorf("%w: %w", driver.ErrNotWritten, err)
	}
	if err != nil {
		return fmt.Errorf("%s: program %s: %w", b.Name(), at, err)
	}
	return nil
}

// plan reads the card and finds the region that is meant.
func (d *Intel) plan(ctx context.Context, at driver.PCIAddress, deployable string, image []byte) (job, error) {
	b, err := d.find(ctx, at)
	if err != nil {
		return job{}, err
	}
	regions, err := d.writable(b, deployable)
	if err != nil {
		return job{}, err
	}
	bits, err := parseBitstream(image)
	if err != nil && (b.dfl || d.settings.BitstreamLoader == "" || len(image) == 0) {
		return job{}, err // a tool does its own checks
	}
	if regions, err = d.fitting(b, bits, regions); err != nil {
		return job{}, err
	}
	if len(regions) > 1 {
		return job{}, fmt.Errorf("%w: the image fits regions %s", ErrRegion, numbers(regions))
	}
	r := regions[0]
	j := job{
		Host: d.settings.Host, Deployable: deployable, Vendor: "intel", Address: at.String(), Region: r.number, RegionType: r.kind,
		Functions: bits.Functions, image: image, dfl: b.dfl,
	}
	for _, s := range r.slots {
		if s.visible {
			j.Ports = append(j.Ports, s.number)
		}
	}
	switch {
	case b.dfl && bits.RegionType == "":
		return job{}, fmt.Errorf("%w: it does not say for which type of region it is, and would go to one of type %s", ErrBitstream, r.kind)
	case len(j.Ports) == 0: // as while a guest has the card
		return job{}, fmt.Errorf("%w: the kernel shows no port of region %d", ErrRegion, r.number)
	}
	return j, nil
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

// writable returns the regions of a card, or of one of its deployables, that may be programmed.
func (d *Intel) writable(b *board, deployable string) ([]region, error) {
	var list []region
	named, fixed := deployable == "", ""
	for _, r := range b.regions {
		switch {
		case deployable != "" && !d.stands(deployable, b, r):
			continue
		case d.settings.fixed(b, r) != "":
			named, fixed = true, d.settings.fixed(b, r)
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
		return nil, fmt.Errorf("%w: %s", ErrPreprogrammed, fixed)
	}
	return list, nil
}

// stands reports whether a deployable is a region, or the whole card.
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
		if reason := d.settings.fixed(b, r); reason != "" && bits.fits(r) {
			return nil, fmt.Errorf("%w: %s of region %d, for which the image was made", ErrPreprogrammed, reason, r.number)
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

// write has the loader do the job. On a tree in memory, which no program reaches, it is simulated.
func (b *base) write(ctx context.Context, j job, simulate func(programmable) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", driver.ErrNotWritten, err)
	}
	tree, inMemory := b.Tree().(programmable)
	if path := b.settings.BitstreamLoader; path != "" {
		loader := program.Program{Path: path, Driver: b.Name(), Logger: b.settings.Logger}
		if err := loader.Write(ctx, j.image, func(file string) any { j.File = file; return j }); err != nil {
			return fmt.Errorf("bitstream loader: %w", err)
		}
	} else if j.dfl || !inMemory {
		return fmt.Errorf("%w: --bitstream-loader, or bitstream_loader in the configuration of the drivers, has to name a program that writes it", ErrNoLoader)
	}
	if inMemory {
		return simulate(tree)
	}
	return nil
}

// load puts the functions of an image into the ports of its region.
func (j job) load(tree programmable) error {
	if len(j.Functions) == 0 {
		return nil // only the loader knows
	}
	for i, port := range j.Ports {
		if err := tree.Program(j.Address, port, j.function(i)); err != nil {
			return fmt.Errorf("port %d: %w", port, err)
		}
	}
	return nil
}
