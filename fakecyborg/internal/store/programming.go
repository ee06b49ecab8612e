package store

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/driver"
)

// regionProperty is the property of an image that names the type of region it was built for.
// Upstream has no such check; its specifications call the property differently from release
// to release.
const regionProperty = "accel:region_id"

func functionTraits(spec driver.Deployable) (functions []string) {
	for _, trait := range spec.Traits {
		if driver.IsFunctionTrait(trait) {
			functions = append(functions, trait)
		}
	}
	return functions
}

// Carries reports whether the region is known to have the requested image or function. This is unknown for a
// bitstream name until Glance has been read. Upstream compares only bitstreams, writes a function every time, and
// assumes that a failed write has changed nothing.
func (t Tx) Carries(d Deployable, want BitstreamRef) bool {
	quirks := t.s.cfg.Quirks
	if d.Region.unknown() {
		return false
	}
	if want.By == ByBitstreamID {
		return want.Value == d.Bitstream
	}
	if quirks || !want.IsFunction() {
		return false
	}
	if d.Region.has(want.By, want.Value) {
		return true
	}
	return want.By == ByFunctionID && slices.ContainsFunc(t.Reported(d).Traits, func(trait string) bool {
		return driver.NamesFunction(trait, want.Value)
	})
}

// Observe returns the row after a driver has reported the region, and the report with the function that the region has.
func (d Deployable) Observe(spec driver.Deployable, quirks bool) (Deployable, driver.Deployable) {
	before := d.Region
	if d.Region = before.observe(functionTraits(spec), quirks); d.Region.Image.ID != before.Image.ID {
		d.Bitstream = ""
	}
	return d, d.Region.complete(spec)
}

// Accept returns the row after Placement has accepted a report of the region.
func (d Deployable) Accept(spec driver.Deployable) Deployable {
	d.Region = d.Region.accept(functionTraits(spec))
	return d
}

// complete replaces the functions of a report that does not show the content of the region.
func (r Region) complete(spec driver.Deployable) driver.Deployable {
	if r.shows(functionTraits(spec)) {
		return spec
	}
	return withFunctions(spec, traitList(r.Trait))
}

// ObserveDeployable stores what a driver's report says of the function of a region.
func (t Tx) ObserveDeployable(uuid string, spec driver.Deployable) {
	t.s.deployables.edit(t, uuid, func(d *Deployable) { *d, _ = d.Observe(spec, t.s.cfg.Quirks) })
}

func traitList(trait string) []string {
	if trait == "" {
		return nil
	}
	return []string{trait}
}

// withFunctions replaces the function traits of a deployable.
func withFunctions(spec driver.Deployable, functions []string) driver.Deployable {
	at := slices.IndexFunc(spec.Traits, driver.IsFunctionTrait)
	if at < 0 {
		at = len(spec.Traits)
	}
	spec.AttachHandles = slices.Clone(spec.AttachHandles)
	for i := range spec.AttachHandles {
		spec.AttachHandles[i].Functions = nil // those of what was there before
	}
	spec.Traits = slices.DeleteFunc(slices.Clone(spec.Traits), driver.IsFunctionTrait)
	spec.Traits = slices.Insert(spec.Traits, at, functions...)
	return spec
}

// OwnedBy reports whether the region is in use only by requests of one instance of the project.
func (t Tx) OwnedBy(deployable, project string) bool {
	instance := ""
	for h := range t.Handles(deployable) {
		if !h.InUse() {
			continue
		}
		a, held := t.s.arqs.byUUID.Get(t.tx, h.HeldBy)
		if !held || a.State != Bound || a.Project != project || instance != "" && a.Instance != instance {
			return false
		}
		instance = a.Instance
	}
	return instance != ""
}

// Programming reports whether an image is being written to a deployable.
func (t Tx) Programming(deployable string) bool {
	_, writing := t.s.leaseByDeployable.Get(t.tx, deployable)
	return writing
}

// regionHandles iterates over the handles that may belong to the region of a deployable: its own, and the handles of
// other deployables of the device if either deployable is no longer reported, because it is then unknown to which
// region they belong.
func (t Tx) regionHandles(d Deployable) iter.Seq[Handle] {
	return func(yield func(Handle) bool) {
		for _, other := range t.DeviceDeployables(d.Device) {
			for h := range t.Handles(other.UUID) {
				if (t.sameRegion(d, other) || h.State == Withdrawn) && !yield(h) {
					return
				}
			}
		}
	}
}

// sameRegion reports whether two deployables of a device may belong to one region. Reported deployables are separate
// regions.
func (t Tx) sameRegion(d, other Deployable) bool {
	return d.UUID == other.UUID || d.Presence == Vanished || other.Presence == Vanished
}

// regionUsers returns the users of handles in the region of a deployable. An unused deployable that is no longer
// reported is included, because an instance may have claimed it.
func (t Tx) regionUsers(d Deployable, except func(Handle, ARQ) bool) []string {
	names := t.usersOf(t.regionHandles(d), except)
	for _, other := range t.DeviceDeployables(d.Device) {
		if other.Presence == Vanished && other.UUID != d.UUID && len(t.users(other.UUID)) == 0 {
			names = append(names, "deployable "+other.Name+", which is no longer reported")
		}
	}
	return names
}

// regionProgramming reports whether an image is being written to the region of a deployable.
func (t Tx) regionProgramming(d Deployable) bool {
	return slices.ContainsFunc(t.DeviceDeployables(d.Device), func(other Deployable) bool {
		return t.sameRegion(d, other) && t.Programming(other.UUID)
	})
}

// ClaimForBind reserves the region of a bind's handle for an image. Write is false if the region has
// the image already.
func (t Tx) ClaimForBind(b Bind, image Image) (l Lease, write bool, err error) {
	h, _ := t.Handle(b.Handle)
	d, err := t.Deployable(h.Deployable)
	if err != nil {
		return Lease{}, false, err
	}
	if !t.s.cfg.Quirks && !d.Region.unknown() && (image.ID == d.Bitstream || t.Carries(d, b.Bitstream)) {
		return Lease{}, false, nil
	}
	l, err = t.claim(d, image, t.otherUsers(d, b.Handle, b.Instance, b.Bitstream))
	return l, true, err
}

// ClaimForOwner reserves a region for an image of its user.
func (t Tx) ClaimForOwner(d Deployable, image Image) (Lease, error) {
	return t.claim(d, image, t.regionUsers(d, func(h Handle, _ ARQ) bool { return h.Deployable == d.UUID }))
}

// ClaimUnused reserves a region that is not in use for an image.
func (t Tx) ClaimUnused(d Deployable, image Image) (Lease, error) {
	return t.claim(d, image, t.regionUsers(d, nil))
}

// claim takes the lease of a region, or refuses.
func (t Tx) claim(d Deployable, image Image, users []string) (Lease, error) {
	l := Lease{Work: workProgram, Deployable: d.UUID, Image: image.ID, Epoch: d.Region.Epoch}
	if t.s.cfg.Quirks {
		return l, nil
	}
	region := image.Properties[regionProperty]
	switch {
	case d.Preprogrammed:
		return l, Refuse(Conflict, "deployable %s is pre-programmed and cannot be programmed", d.Name)
	case t.regionProgramming(d):
		return l, Refuse(Conflict, "deployable %s is being programmed already", d.Name)
	case len(users) > 0:
		return l, Refuse(Conflict, "deployable %s is in use by %s and cannot be programmed", d.Name, strings.Join(users, ", "))
	case region != "" && !t.regionFits(d, region):
		return l, Refuse(Conflict, "image %s is for regions of type %s, deployable %s is not one", image.ID, region, d.Name)
	}
	trait, err := t.FunctionTrait(d, image)
	if err != nil {
		return l, Refuse(Invalid, "image %s: %v", image.ID, err)
	}
	if other, differs := t.differsOnProvider(d, trait); differs {
		return l, Refuse(Conflict, "deployable %s cannot have another function than %s: on a flat host all devices need the same traits", d.Name, other)
	}
	l.ID = t.s.leaseIDs.Next(t.tx)
	t.s.leases.Put(t.tx, l)
	return l, nil
}

// differsOnProvider returns another deployable of a flat host that lacks the function, or has other functions.
func (t Tx) differsOnProvider(d Deployable, trait string) (other string, differs bool) {
	if t.s.cfg.Layout != LayoutFlat {
		return "", false
	}
	for beside := range t.s.deployableByProvider.All(t.tx, d.Provider) {
		if beside.ID != d.ID && !slices.Equal(functionTraits(t.Reported(beside)), traitList(trait)) {
			return beside.Name, true
		}
	}
	return "", false
}

// regionFits compares the type of region of an image with the region's traits. A region without a type
// accepts every image.
func (t Tx) regionFits(d Deployable, region string) bool {
	typed := false
	for _, trait := range t.Reported(d).Traits {
		if driver.NamesRegion(trait, region) {
			return true
		}
		typed = typed || driver.IsRegionTrait(trait)
	}
	return !typed
}

// FunctionTrait is the trait of the function of an image, empty if the image names none.
// Upstream puts "_-" in place of a hyphen, which Placement refuses.
func (t Tx) FunctionTrait(d Deployable, image Image) (string, error) {
	function := image.Get(ByFunctionID)
	if function == "" {
		return "", nil
	}
	if t.s.cfg.Quirks {
		text := strings.ToUpper(strings.ReplaceAll(function, "-", "_-"))
		return "CUSTOM_FPGA_FUNCTION_ID_" + strings.ToUpper(d.DriverName) + "_" + text, nil
	}
	vendor := t.vendorOf(d)
	name, err := shapeOf(t.Reported(d), vendor).FunctionTrait(vendor, function)
	if err != nil {
		return "", fmt.Errorf("%s %q: %w", ByFunctionID.Property(), function, err)
	}
	return name, nil
}

// vendorOf returns the vendor in the traits of a region: the device's vendor if the driver uses it in its traits, or
// else the driver's.
func (t Tx) vendorOf(d Deployable) string {
	device, _ := t.Device(d.Device)
	name, err := driver.CustomName(driver.TypeFPGA, device.Vendor)
	if err == nil && slices.ContainsFunc(t.Reported(d).Traits, func(trait string) bool { return trait == name || strings.HasPrefix(trait, name+"_") }) {
		return device.Vendor
	}
	return strings.TrimSuffix(d.DriverName, "_fpga") // intel_fpga is Intel's
}

// shapeOf detects the form of the traits of a region. Cyborg's agent joins type, vendor and product in one trait.
func shapeOf(spec driver.Deployable, vendor string) driver.TraitShape {
	if !strings.HasPrefix(spec.Class, "CUSTOM_ACCELERATOR_") {
		return driver.ShapeShipped
	}
	name, _ := driver.CustomName(driver.TypeFPGA, vendor) // without a vendor no trait begins with it
	joined := slices.ContainsFunc(spec.Traits, func(t string) bool { return strings.HasPrefix(t, name+"_") })
	if joined && !slices.Contains(spec.Traits, name) {
		return driver.ShapeRockyAgent
	}
	return driver.ShapeRockyScheduling
}

// PlanFunction returns the desired deployable with an image, and its region. Shown is what the driver reports for the region after the write, or
// nil if unknown: a driver that reads the region reports its function, even if the image does not name it. A region that shows another function
// than the image names is refused.
func (t Tx) PlanFunction(d Deployable, image Image, shown *driver.Deployable) (driver.Deployable, Region, error) {
	trait, err := t.FunctionTrait(d, image)
	if err != nil {
		return driver.Deployable{}, Region{}, err
	}
	var read []string
	if shown != nil {
		read = functionTraits(*shown)
	}
	region, functions, ok := d.Region.write(image, trait, read)
	if !ok {
		return driver.Deployable{}, Region{}, fmt.Errorf("%s of the image is %q, and the region shows %s", ByFunctionID.Property(), image.Get(ByFunctionID), strings.Join(read, ", "))
	}
	return withFunctions(t.Reported(d), functions), region, nil
}

// SetFunction stores the function that was written to a region and that Placement has. Shown is what the driver
// reports for it, or nil if unknown.
func (t Tx) SetFunction(uuid string, spec driver.Deployable, region Region, shown *driver.Deployable, now time.Time) {
	d, err := t.Deployable(uuid)
	if err != nil {
		return
	}
	d.Region = region
	t.s.deployables.Put(t.tx, d)
	var handles []driver.AttachHandle
	if shown != nil && region.ReadBack {
		handles = shown.AttachHandles
	}
	t.setHandleFunctions(uuid, handles)
	t.updateAttributes(d, spec, now)
}

// EndProgramming ends a lease of [Tx.ClaimUnused] and the like after the image was written.
func (t Tx) EndProgramming(l Lease, now time.Time) {
	t.Unclaim(l)
	t.s.deployables.edit(t, l.Deployable, func(d *Deployable) { d.Bitstream, d.UpdatedAt = l.Image, now })
}

// Spoil stores that the content of a region is unknown, because an image was written only in part: it has no
// function. The lease is for the next write. Upstream ignores this.
func (t Tx) Spoil(l Lease, now time.Time) Lease {
	d, err := t.Deployable(l.Deployable)
	if err != nil || t.s.cfg.Quirks {
		return l
	}
	t.setHandleFunctions(d.UUID, nil)
	t.lose(d, spoiled, now)
	if l.Epoch = d.Region.Epoch + 1; t.Programming(d.UUID) {
		t.s.leases.Put(t.tx, l)
	}
	return l
}

// lose stores that a region has lost its content and its functions.
func (t Tx) lose(d Deployable, to content, now time.Time) {
	t.updateAttributes(d, withFunctions(t.Reported(d), nil), now)
	d.Region, d.Bitstream, d.UpdatedAt = d.Region.lost(to), "", now
	t.s.deployables.Put(t.tx, d)
}

// Lost reports whether the host has restarted since a region was claimed.
func (t Tx) Lost(l Lease) bool {
	d, err := t.Deployable(l.Deployable)
	return err == nil && d.Region.Epoch != l.Epoch
}

// Unclaim ends the lease of a region and keeps its row unchanged.
func (t Tx) Unclaim(l Lease) { t.endLease(l) }

// LoseFunctions stores that a host restarts: an FPGA loses what was written to it, and has the content that its
// driver reports afterwards. While a guest hides it from the driver its content is unknown. Upstream ignores this.
func (t Tx) LoseFunctions(host string, now time.Time) {
	if t.s.cfg.Quirks {
		return
	}
	for _, d := range slices.Collect(t.HostDeployables(host)) {
		functions := functionTraits(t.Reported(d))
		switch {
		case d.Region.Content != reported || len(functions) > 0 && len(t.users(d.UUID)) > 0:
			t.lose(d, reset, now)
			continue
		case len(functions) > 0 && !d.Preprogrammed: // another program may have written it
			d.Region = d.Region.lost(reset)
		case t.Programming(d.UUID):
			d.Region = d.Region.lost(reported)
		default:
			continue
		}
		t.s.deployables.Put(t.tx, d)
	}
}
