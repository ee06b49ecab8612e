package fakecyborg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// traitFunction starts the traits that tell which function an FPGA region has:
// upstream's CUSTOM_FPGA_FUNCTION_ID_INTEL_X and the CUSTOM_FPGA_FUNCTION_INTEL_X
// of the Rocky specification.
const traitFunction = "CUSTOM_FPGA_FUNCTION_"

// traitProgrammable marks a region that may be programmed.
const traitProgrammable = "CUSTOM_PROGRAMMABLE"

// loaded is what was written to a region last.
type loaded struct {
	// image is what Glance said of it then; its id is the deployable's bitstream_id.
	image glanceImage
	// trait is the function's, or empty for an image that tells none.
	trait string
	// reported are the function traits that the driver told at that time. A driver
	// that still tells the same has not looked at the region since.
	reported []string
	// looked is set once the driver has told something else since: it reads the
	// function from the card.
	looked bool
}

// errUnwritten is why upstream leaves a request BindStarted for ever: the image
// is on the card, and the trait of its function cannot be made.
var errUnwritten = errors.New("the function's trait was refused")

// carries reports whether the region is known to have what a request wants, so
// that nothing has to be written. Of a name of a bitstream Glance must be asked
// first. Upstream compares bitstreams only, writes a function every time, and believes
// that what a failed writing was to replace is still there.
func (part *deployableRow) carries(want image, quirks bool) bool {
	if part.unsure && !quirks {
		return false
	}
	if want.by == byBitstreamID {
		return want.value == part.bitstream
	}
	if quirks || !want.isFunction() {
		return false
	}
	if part.loaded.image.get(want.by) == want.value {
		return true
	}
	name, err := driver.NamePart(want.value)
	return want.by == byFunctionID && err == nil && slices.ContainsFunc(part.functionTraits(), func(trait string) bool {
		return endsIn(trait, name)
	})
}

// functionTraits are the traits of the region's function.
func (part *deployableRow) functionTraits() []string {
	return functionTraits(part.reportedSpec())
}

func functionTraits(spec driver.Deployable) []string {
	return slices.DeleteFunc(spec.Traits(), func(trait string) bool { return !isFunction(trait) })
}

// isFunction knows the trait of a function in all shapes, CUSTOM_FPGA_INTEL_FUNCTION_X
// of the Rocky specification of the agent among them.
func isFunction(trait string) bool {
	return strings.HasPrefix(trait, "CUSTOM_FPGA_") && strings.Contains(trait, "_FUNCTION_")
}

// asProgrammed is what a driver reports, with the function that was written
// since in place of the one it tells. A driver that reads the function from the
// card, and so has told another one than before, is believed from then on: a card
// that starts again with its first function is not taken for the programmed one.
func (part *deployableRow) asProgrammed(spec driver.Deployable) driver.Deployable {
	if part.loaded.image.id == "" || part.believed(spec) {
		return spec
	}
	return withFunction(spec, part.loaded.trait)
}

// believed reports whether the driver has looked at the region since it was written.
func (part *deployableRow) believed(spec driver.Deployable) bool {
	return part.loaded.looked || !slices.Equal(functionTraits(spec), part.loaded.reported)
}

// look takes note of what a driver tells of the function. What was written is
// forgotten where the driver tells something else. It is called under the lock.
func (part *deployableRow) look(spec driver.Deployable) {
	if part.loaded.image.id == "" || !part.believed(spec) {
		return
	}
	told := functionTraits(spec)
	if !part.loaded.looked && part.loaded.trait == "" && len(told) == 1 {
		part.loaded.trait = told[0] // an image that did not tell its function
	}
	part.loaded.looked = true
	if len(told) != len(traitList(part.loaded.trait)) || len(told) == 1 && !sameName(told[0], part.loaded.trait) {
		part.loaded, part.bitstream = loaded{}, ""
	}
}

// sameName compares traits whose identifiers may be written with or without
// hyphens: the kernel's have none.
func sameName(a, b string) bool { return bare(a) == bare(b) }

// endsIn reports whether an identifier ends a trait, however both are written.
func endsIn(trait, name string) bool { return strings.HasSuffix(bare(trait), bare(name)) }

func bare(name string) string { return strings.ReplaceAll(name, "_", "") }

// withFunction replaces the function traits of a deployable by one, or by none.
func withFunction(spec driver.Deployable, trait string) driver.Deployable {
	kept := make([]driver.Attribute, 0, len(spec.Attributes)+1)
	used := make(map[string]bool)
	placed := trait == ""
	for _, a := range spec.Attributes {
		if strings.HasPrefix(a.Key, "trait") && isFunction(a.Value) {
			if placed {
				continue
			}
			a.Value, placed = trait, true
		}
		used[a.Key] = true
		kept = append(kept, a)
	}
	for n := 0; !placed; n++ {
		if key := fmt.Sprint("trait", n); !used[key] {
			kept, placed = append(kept, driver.Attribute{Key: key, Value: trait}), true
		}
	}
	spec.Attributes = kept
	return spec
}

// settled is a device as the configuration wants it reported: what is
// pre-programmed is not offered for programming.
func settled(d driver.Device) driver.Device {
	d = d.Clone()
	for i := range d.Deployables {
		part := &d.Deployables[i]
		if d.Programmable != nil && part.Programmable == nil {
			part.Programmable = d.Programmable
		}
		if part.Preprogrammed() {
			part.Attributes = slices.DeleteFunc(part.Attributes, func(a driver.Attribute) bool {
				return strings.HasPrefix(a.Key, "trait") && a.Value == traitProgrammable
			})
		}
	}
	return d
}

// ownedBy reports whether the region is in use, and by requests of one instance
// of the project only.
func (part *deployableRow) ownedBy(project string) bool {
	instance := ""
	for _, h := range part.handles {
		switch {
		case !h.taken:
		case h.arq == nil || h.arq.state != StateBound || h.arq.project != project:
			return false
		case instance != "" && h.arq.instance != instance:
			return false
		default:
			instance = h.arq.instance
		}
	}
	return instance != ""
}

// programFor writes an image to a region at the word of a caller. A region that
// is in use is left alone, unless RuntimeProgramming is on and it is the caller
// who uses it; upstream does not look.
func (s *Server) programFor(ctx context.Context, part *deployableRow, id string, c caller) error {
	found := glanceImage{id: id}
	if !s.cfg.UpstreamQuirks {
		var err error
		if found, err = s.describeImage(ctx, id); err != nil {
			return s.programFailed(part, id, err)
		}
	}
	if err := s.claimFor(part, found, c); err != nil {
		return err
	}
	if s.cfg.UpstreamQuirks {
		return s.program(ctx, part, found.id) // and nobody remembers
	}
	return s.write(ctx, part, found, true)
}

// claimFor is claimRegion for a caller, who may have lost the region since it
// was let in.
func (s *Server) claimFor(part *deployableRow, found glanceImage, c caller) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.RuntimeProgramming && part.ownedBy(c.Project) {
		return s.claimRegion(part, found, nil)
	}
	if err := s.authorize(c, rulePartProgram); err != nil {
		return err
	}
	return s.claimRegion(part, found, part.inUse())
}

// programHandle writes the image that a bind wants to the region of its handle,
// if it is not there yet.
func (s *Server) programHandle(ctx context.Context, job *bindJob) error {
	found, err := s.findImage(ctx, job.image)
	if err != nil {
		return refuse(kindServer, "ARQ %s: %v", job.uuid, err)
	}
	part := job.handle.deployable
	s.mu.Lock()
	if !s.cfg.UpstreamQuirks && !part.unsure && (found.id == part.bitstream || part.carries(job.image, false)) {
		s.mu.Unlock()
		return nil
	}
	err = s.claimRegion(part, found, part.usersBeside(job))
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.write(ctx, part, found, !s.cfg.UpstreamQuirks || job.image.isFunction())
}

// usersBeside are the requests that hold handles of the region, but for the
// job's own and those of its instance that want the same image written.
func (part *deployableRow) usersBeside(job *bindJob) []string {
	var users []string
	for _, h := range part.handles {
		switch {
		case !h.taken || h == job.handle:
		case h.arq == nil:
			users = append(users, "a request that is gone")
		case !job.shares(h.arq):
			users = append(users, "ARQ "+h.arq.uuid)
		}
	}
	return users
}

// shares reports whether another request may be on the region that the job
// programs: it is of the same instance, still being bound, and wants the same.
func (j *bindJob) shares(other *arqRow) bool {
	wanted, err := other.wanted(false)
	return err == nil && other.instance == j.server && other.state == StateBindStarted && wanted == j.image
}

// claimRegion reserves a region for being written, or tells why it must not be.
// It is called under the lock; write gives the region back.
func (s *Server) claimRegion(part *deployableRow, found glanceImage, users []string) error {
	if s.cfg.UpstreamQuirks {
		return nil
	}
	region := found.properties[regionProperty]
	switch {
	case part.fixed:
		return refuse(kindConflict, "deployable %s is pre-programmed and cannot be programmed", part.name)
	case part.writing != "":
		return refuse(kindConflict, "deployable %s is being programmed already", part.name)
	case len(users) > 0:
		return refuse(kindConflict, "deployable %s is in use by %s and cannot be programmed", part.name, strings.Join(users, ", "))
	case region != "" && !part.regionFits(region):
		return refuse(kindConflict, "image %s is for regions of type %s, deployable %s is none", found.id, region, part.name)
	}
	if _, err := functionTrait(part, found, false); err != nil {
		return refuse(kindInvalid, "image %s: %v", found.id, err)
	}
	part.writing = found.id
	return nil
}

// regionFits compares the type of region an image is for with the region's
// traits. A region that tells no type takes every image.
func (part *deployableRow) regionFits(region string) bool {
	name, err := driver.NamePart(region)
	if err != nil {
		return false
	}
	typed := false
	for _, trait := range part.reportedSpec().Traits() {
		if strings.HasPrefix(trait, "CUSTOM_FPGA_") && strings.Contains(trait, "_REGION_") {
			typed = true
			if endsIn(trait, name) {
				return true
			}
		}
	}
	return !typed
}

// functionTrait is the trait of the function of an image, empty if the image
// tells none. Upstream puts "_-" in place of a hyphen, which Placement refuses.
func functionTrait(part *deployableRow, found glanceImage, quirks bool) (string, error) {
	function := found.get(byFunctionID)
	if function == "" {
		return "", nil
	}
	if quirks {
		text := strings.ToUpper(strings.ReplaceAll(function, "-", "_-"))
		return traitFunction + "ID_" + strings.ToUpper(part.driverName) + "_" + text, nil
	}
	name, err := driver.CustomName(append(part.functionWords(), function)...)
	if err != nil {
		return "", fmt.Errorf("%s %q: %w", byFunctionID.property(), function, err)
	}
	return name, nil
}

// functionWords are what stands before the function in its trait, in the shape of
// the names that the driver reports.
func (part *deployableRow) functionWords() []string {
	vendor := strings.TrimSuffix(part.driverName, "_fpga") // intel_fpga is Intel's
	spec := part.reportedSpec()
	if agent, err := driver.CustomName("FPGA", vendor, "REGION"); err == nil &&
		slices.ContainsFunc(spec.Traits(), func(t string) bool { return strings.HasPrefix(t, agent+"_") }) {
		return []string{"FPGA", vendor, "FUNCTION"}
	}
	if strings.HasPrefix(spec.ResourceClass(), "CUSTOM_ACCELERATOR_") {
		return []string{"FPGA", "FUNCTION", vendor}
	}
	return []string{"FPGA", "FUNCTION", "ID", vendor}
}

// write does the work on a region that was claimed: driver, store and, if told
// to, Placement.
func (s *Server) write(ctx context.Context, part *deployableRow, found glanceImage, tell bool) error {
	err := s.program(ctx, part, found.id)
	if err == nil && tell {
		err = s.follow(ctx, part, found)
	}
	s.lock(ctx)
	defer s.unlock()
	part.writing = ""
	now := found.id
	if err != nil {
		if s.cfg.UpstreamQuirks {
			return err
		}
		now = "" // half of it may be there
	}
	s.state.notes.AddSteps("deployable", part.uuid, part.name, tables.Step{Name: "bitstream_id", From: part.bitstream, To: now})
	part.unsure, part.bitstream, part.updated = err != nil, now, s.clock.Now()
	return err
}

// follow makes the function's trait tell what was written, here and in
// Placement. A report of the host waits meanwhile.
func (s *Server) follow(ctx context.Context, part *deployableRow, found glanceImage) error {
	leave, err := s.enterTurn(ctx, part.device.host)
	if err != nil {
		return s.programFailed(part, found.id, err)
	}
	defer leave()
	s.mu.Lock()
	if _, there := s.state.deployables.get(part.uuid); !there {
		s.mu.Unlock()
		return s.programFailed(part, found.id, errors.New("the deployable vanished meanwhile"))
	}
	trait, err := functionTrait(part, found, s.cfg.UpstreamQuirks)
	before := functionTraits(part.reportedSpec())
	if part.loaded.image.id != "" && slices.Equal(before, traitList(part.loaded.trait)) {
		before = part.loaded.reported // the driver has not told otherwise
	}
	spec := withFunction(part.reportedSpec(), trait)
	s.mu.Unlock()
	if err != nil {
		return s.programFailed(part, found.id, err)
	}
	if err := s.tellFunction(ctx, part, spec); err != nil {
		if s.cfg.UpstreamQuirks {
			err = errors.Join(errUnwritten, err)
		}
		return err
	}
	s.lock(ctx)
	defer s.unlock()
	part.loaded = loaded{image: found, trait: trait, reported: before}
	s.state.updateAttributes(part, spec.Attributes, s.clock.Now())
	return nil
}

func traitList(trait string) []string {
	if trait == "" {
		return nil
	}
	return []string{trait}
}

// tellFunction brings the provider's traits in line with what was written.
func (s *Server) tellFunction(ctx context.Context, part *deployableRow, spec driver.Deployable) error {
	if s.placement == nil {
		return nil
	}
	fail := func(err error) error {
		if err == nil {
			return nil
		}
		return refuse(kindServer, "FPGA programming: deployable %s: tell Placement the function: %v", part.name, err)
	}
	parent, err := s.placement.parent(ctx, part.device.host)
	if err != nil {
		return fail(err)
	}
	s.mu.RLock()
	change := s.state.compare(part, spec, parent)
	s.mu.RUnlock()
	return fail(s.shape.change(ctx, change))
}

func (s *Server) programFailed(part *deployableRow, image string, err error) error {
	k := kindServer
	var refused *refusal
	if errors.As(err, &refused) {
		k = refused.kind
	}
	return refuse(k, "FPGA programming failed: host %s, device %s, image %s: %v", part.device.host, part.device.key, image, err)
}

// programmed has a driver write an image to a region.
func programmed(ctx context.Context, d driver.Programmer, path driver.ControlPath, region string, data []byte) error {
	if regions, ok := d.(driver.RegionProgrammer); ok {
		return regions.ProgramRegion(ctx, path, region, data)
	}
	return d.Program(ctx, path, data)
}

// program reads the image and hands it to the driver. Upstream looks its Xilinx
// driver up by a name that it does not have.
func (s *Server) program(ctx context.Context, part *deployableRow, image string) error {
	s.mu.RLock()
	host, source, path := part.device.host, part.device.source, part.device.spec.ControlPath
	unreachable := s.cfg.UpstreamQuirks && part.driverName == "XILINX"
	s.mu.RUnlock()
	if unreachable {
		return s.programFailed(part, image, fmt.Errorf("no driver has the name %s", "XILINX"))
	}
	d, err := s.driverOf(host, source)
	if err != nil {
		return s.programFailed(part, image, err)
	}
	programmer, ok := d.(driver.Programmer)
	if !ok {
		return s.programFailed(part, image, fmt.Errorf("driver %s programs nothing", d.Name()))
	}
	data, err := s.readImage(ctx, image)
	if err != nil {
		return s.programFailed(part, image, err)
	}
	err = s.perform(ctx, agentCallOperation, host, func() error {
		return s.perform(ctx, programOperation, part.name, func() error {
			defer s.hardwareChanged(host)
			err := programmed(ctx, programmer, path, part.name, data)
			if err == nil {
				simhttp.Note(ctx, sim.Change{Action: sim.Changed, Kind: "region", ID: part.name, What: "image " + image + " written"})
			}
			return err
		})
	})
	if err != nil {
		return s.programFailed(part, image, err)
	}
	return nil
}
