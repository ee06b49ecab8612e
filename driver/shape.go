package driver

import (
	"cmp"
	"fmt"
	"slices"
)

// TraitShape says by which specification traits and resource classes are named. The
// empty shape is ShapeShipped.
type TraitShape string

// The shapes, each named after where its names are written down.
const (
	// ShapeShipped has the names that the drivers of Cyborg 2026.2 report, and
	// CUSTOM_PROGRAMMABLE on regions that can be programmed.
	ShapeShipped TraitShape = "shipped"
	// ShapeRockyScheduling has the names of the specification of scheduling with Nova:
	// CUSTOM_GPU_AMD, CUSTOM_FPGA_INTEL_ARRIA10, CUSTOM_FPGA_REGION_INTEL_<uuid>,
	// CUSTOM_FPGA_FUNCTION_INTEL_<uuid>, CUSTOM_PROGRAMMABLE, CUSTOM_FPGA_NETWORK, and
	// the class CUSTOM_ACCELERATOR_FPGA.
	ShapeRockyScheduling TraitShape = "rocky-scheduling"
	// ShapeRockyAgent has the names of the specification of the interface between agent and
	// drivers: CUSTOM_FPGA_INTEL_PAC_ARRIA10, CUSTOM_FPGA_INTEL_REGION_<uuid>,
	// CUSTOM_FPGA_INTEL_FUNCTION_<uuid>; class as above.
	ShapeRockyAgent TraitShape = "rocky-agent"
	// ShapeWallaby has the names of the specification of vGPUs: OWNER_CYBORG and
	// CUSTOM_<VENDOR>_<PRODUCT ID>_<vGPU type>. It covers GPUs only; other devices have the
	// shipped names and CUSTOM_<VENDOR>_<PRODUCT ID>.
	ShapeWallaby TraitShape = "wallaby"
)

func traitShapes() []TraitShape {
	return []TraitShape{ShapeShipped, ShapeRockyScheduling, ShapeRockyAgent, ShapeWallaby}
}

// check says whether the shape is one of the constants, or empty. The error wraps ErrName
// and lists the shapes.
func (s TraitShape) check() error {
	if s != "" && !slices.Contains(traitShapes(), s) {
		return fmt.Errorf("%w: unknown trait shape %q, want one of %v", ErrName, s, traitShapes())
	}
	return nil
}

// Subject holds the parts of the names of one resource provider.
type Subject struct {
	// Type is one of the Type constants.
	Type string
	// Vendor is a word such as "intel", or the id where no word is known.
	Vendor string
	// Product is a word such as "arria10" or "PAC Arria10"; empty: ProductID is used.
	Product string
	// ProductID is the id, "15f8"; empty: Product is used.
	ProductID string
	// Region and Functions are UUIDs, with or without hyphens; may be empty.
	Region    string
	Functions []string
	// Programmable is set for a region that may be programmed.
	Programmable bool
	// Functionality is "compute", "network", "storage" or empty.
	Functionality string
	// VGPUType is the name of a vGPU type in traits, such as T4_1B.
	VGPUType string
	// Shipped and ShippedClass are the traits and the class of upstream's driver.
	Shipped      []string
	ShippedClass string
	// Always are reported last, in every shape.
	Always []string
}

// traits returns the names of the traits of a subject, in the order in which they are
// reported and none twice. All shapes but ShapeShipped begin with OWNER_CYBORG; shipped
// has it where upstream's driver has it, and the conductor adds it elsewhere. The error
// wraps ErrName and shows the offending character.
func (s TraitShape) traits(subject Subject) ([]string, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	n := &namer{}
	switch s {
	case ShapeRockyScheduling:
		n.add(TraitOwnerCyborg)
		n.scheduling(subject)
	case ShapeRockyAgent:
		n.add(TraitOwnerCyborg)
		n.agent(subject)
	case ShapeWallaby:
		n.add(TraitOwnerCyborg)
		n.wallaby(subject)
	default:
		n.add(subject.Shipped...)
	}
	if subject.Programmable {
		n.add(TraitProgrammable)
	}
	for _, trait := range n.traits {
		if err := CheckTrait(trait); err != nil && n.err == nil {
			n.err = err
		}
	}
	return n.traits, n.err
}

// resourceClass returns the name of the resource class of a subject. The error wraps
// ErrName.
func (s TraitShape) resourceClass(subject Subject) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	if s == ShapeRockyScheduling || s == ShapeRockyAgent {
		return CustomName("ACCELERATOR", subject.Type)
	}
	return subject.ShippedClass, CheckResourceClass(subject.ShippedClass)
}

// namer gathers traits up to the first fault.
type namer struct {
	traits []string
	err    error
}

func (n *namer) add(traits ...string) {
	for _, t := range traits {
		if !slices.Contains(n.traits, t) {
			n.traits = append(n.traits, t)
		}
	}
}

// custom adds a trait of parts.
func (n *namer) custom(parts ...string) { n.named(CustomName(parts...)) }

func (n *namer) named(name string, err error) {
	if n.err == nil {
		n.err = err
	}
	if err == nil {
		n.add(name)
	}
}

// scheduling has the device type, the family, then what is of a region.
func (n *namer) scheduling(s Subject) {
	n.custom(s.Type, s.Vendor)
	if family := cmp.Or(s.Product, s.ProductID); family != "" {
		n.custom(s.Type, s.Vendor, family)
	}
	if s.VGPUType != "" {
		n.custom(s.Type, s.Vendor, s.VGPUType)
	}
	n.region(ShapeRockyScheduling, s)
	if s.Functionality != "" {
		n.custom(s.Type, s.Functionality)
	}
}

// agent has one trait for the device and one for each uuid.
func (n *namer) agent(s Subject) {
	n.custom(s.Type, s.Vendor, cmp.Or(s.Product, s.ProductID))
	if s.VGPUType != "" {
		n.custom(s.Type, s.Vendor, s.VGPUType)
	}
	n.region(ShapeRockyAgent, s)
}

// region has the type of a region and its functions.
func (n *namer) region(shape TraitShape, s Subject) {
	if s.Region != "" {
		n.named(shape.regionTrait(s.Type, s.Vendor, kindRegion, s.Region))
	}
	for _, id := range s.Functions {
		n.named(shape.regionTrait(s.Type, s.Vendor, kindFunction, id))
	}
}

func (n *namer) wallaby(s Subject) {
	parts := []string{s.Vendor, cmp.Or(s.ProductID, s.Product)}
	if s.VGPUType != "" {
		parts = append(parts, s.VGPUType)
	}
	n.custom(parts...)
	if s.Type != TypeGPU {
		n.add(s.Shipped...)
	}
}
