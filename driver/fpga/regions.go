package fpga

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// board is a card of Intel's with its regions.
type board struct {
	*driver.Unit
	regions []region
	// virtual are the virtual functions whose ports could be read.
	virtual []*driver.Unit
	// unclear says why it is not known which function leads to which region.
	unclear error
	// dfl is set for a card with a device feature list, manages for a function with engines, and
	// serves for one with ports.
	dfl, manages, serves bool
	// fault is set for a card that must not be offered, once that was reported.
	fault bool
}

// fixed says why a region is not to be programmed, or is empty. In a device feature list a region
// without a type has no manager.
func (s *settings) fixed(b *board, r region) string {
	switch {
	case !s.programmable(b.Address, r.number):
		return "the configuration says so"
	case b.dfl && r.kind == "":
		return "the kernel shows no type of the region (compat_id)"
	}
	return ""
}

// divided reports whether the virtual functions of the card are offered.
func (b *board) divided() bool { return b.Divided() != "" }

// region is a part of a card that can be programmed without disturbing the others.
type region struct {
	number int    // index in the card, from 0
	kind   string // its type, empty if the kernel does not say
	slots  []slot
	failed string // why it cannot be used
}

// slot is a place for one function of the user, and the PCI function that leads to it. A
// virtual function that Intel's kernel driver does not drive shows no port.
type slot struct {
	port
	at      driver.PCIAddress
	visible bool
}

// functions returns the ids of the loaded functions, in the order of ports, each once.
func (r region) functions() []string {
	var list []string
	for _, s := range r.slots {
		if s.function != "" && !slices.Contains(list, s.function) {
			list = append(list, s.function)
		}
	}
	return list
}

func (r region) reachedBy(at driver.PCIAddress) bool {
	return slices.ContainsFunc(r.slots, func(s slot) bool { return s.at == at })
}

// reached is how many PCI functions lead to the region.
func (r region) reached() int {
	var list []driver.PCIAddress
	for _, s := range r.slots {
		if !slices.Contains(list, s.at) {
			list = append(list, s.at)
		}
	}
	return len(list)
}

// only is the part of the region that some PCI functions lead to.
func (r region) only(functions ...driver.PCIAddress) region {
	r.slots = slices.DeleteFunc(slices.Clone(r.slots), func(s slot) bool { return !slices.Contains(functions, s.at) })
	return r
}

// mixed says that handles of the region do not lead to the same functions, or is empty.
func (r region) mixed() string {
	all := r.functions()
	for _, s := range r.slots {
		own := r.only(s.at).functions()
		if len(own) != len(all) {
			return fmt.Sprintf("its PCI functions do not all lead to the functions %s: a bind for a function is refused once no PCI function is free that leads to it", strings.Join(all, ", "))
		}
	}
	return ""
}

// regions reads what is on a card.
func (v *intelVisit) regions(c *driver.Unit) *board {
	b := &board{Unit: c}
	own, ok := v.read(c)
	b.dfl, b.manages, b.serves = own.dfl, len(own.engines) > 0, len(own.ports) > 0
	b.fault = own.broken || !ok && !b.divided()
	slots := slotsOf(c.Address, own.ports)
	for _, f := range c.Virtual {
		var inside contents
		if !f.Unreadable {
			if inside, ok = v.read(f); ok {
				b.virtual = append(b.virtual, f)
			}
		}
		if len(inside.ports) == 0 {
			slots = append(slots, slot{at: f.Address})
			continue
		}
		slots = append(slots, slotsOf(f.Address, inside.ports)...)
	}
	b.regions = make([]region, max(len(own.engines), 1))
	for i := range b.regions {
		b.regions[i].number = i
	}
	for i, e := range own.engines {
		b.regions[i].kind, b.regions[i].failed = e.kind, e.failed
	}
	b.unclear = v.settings.assign(b, own.engines, slots)
	if b.unclear != nil && !b.divided() {
		b.regions[0].slots = slots // all are offered together
	}
	if err := v.settings.checkRegions(b); err != nil {
		v.Problem(c, err)
		b.fault = true
	}
	return b
}

// checkRegions refuses settings of regions that the card does not have: they were meant
// for one that it has.
func (s *settings) checkRegions(b *board) error {
	for _, r := range s.devices[b.Address].Regions {
		if r.Region >= len(b.regions) {
			return fmt.Errorf("%w: devices: region %d is configured, the card has %d", driver.ErrConfig, r.Region, len(b.regions))
		}
	}
	return nil
}

func slotsOf(at driver.PCIAddress, ports []port) []slot {
	var slots []slot
	for _, p := range ports {
		slots = append(slots, slot{port: p, at: at, visible: true})
	}
	return slots
}

// assign puts the slots of a card into its regions. With one region all are in it.
// With several it is as configured; else as many for each as its management engine says
// it has ports, in the order of their numbers; else the same number for each.
func (s *settings) assign(b *board, engines []engine, slots []slot) error {
	if len(b.regions) == 1 {
		b.regions[0].slots = slots
		return nil
	}
	if configured := s.devices[b.Address]; b.divided() && len(configured.owner) > 0 {
		b.assignAs(configured, slots)
		return nil
	}
	if reason := b.inOrder(slots); reason != "" {
		return fmt.Errorf("%w of %s: %s; set devices.regions.pci_functions", ErrRegion, b.Address, reason)
	}
	counts, ok := sizes(engines, len(slots))
	if !ok {
		return fmt.Errorf("%w of %s: %d regions, %d ports, and it is not known which is in which; set devices.regions.pci_functions",
			ErrRegion, b.Address, len(b.regions), len(slots))
	}
	for i, n := range counts {
		b.regions[i].slots, slots = slots[:n:n], slots[n:]
	}
	return b.undivided()
}

// assignAs follows the configuration. What is not mentioned is in no region.
func (b *board) assignAs(configured deviceSettings, slots []slot) {
	for _, s := range slots {
		if i, ok := configured.owner[s.at]; ok && i < len(b.regions) {
			b.regions[i].slots = append(b.regions[i].slots, s)
		}
	}
}

// inOrder sorts slots as the ports are numbered. Virtual functions that show no port are ordered
// by their addresses. It returns the reason if that is not possible.
func (b *board) inOrder(slots []slot) string {
	hidden := slices.ContainsFunc(slots, func(s slot) bool { return !s.visible })
	switch {
	case b.NumVFs > 0 && b.NumVFs != len(b.Virtual):
		return fmt.Sprintf("%d virtual functions are enabled, %d are visible", b.NumVFs, len(b.Virtual))
	case !hidden:
		slices.SortFunc(slots, func(a, b slot) int { return cmp.Or(a.number-b.number, a.at.Compare(b.at)) })
		return ""
	}
	slices.SortFunc(slots, func(a, b slot) int { return cmp.Or(a.at.Compare(b.at), a.number-b.number) })
	next := 0 // the least number that is in order, with one for each function that shows none
	for _, s := range slots {
		if s.visible && (s.number < next || s.at == b.Address) {
			return "some virtual functions show no port, and the others are not in their order"
		}
		if s.visible {
			next = s.number
		}
		next++
	}
	return ""
}

// sizes is how many slots each region has.
func sizes(engines []engine, slots int) (counts []int, ok bool) {
	sum := 0
	for _, e := range engines {
		counts, sum = append(counts, e.ports), sum+e.ports
	}
	if sum == slots && slices.Min(counts) >= 0 {
		return counts, true
	}
	for i := range counts {
		counts[i] = slots / len(engines)
	}
	return counts, slots%len(engines) == 0
}

// undivided refuses a virtual function that leads to two regions: it would be offered
// with both.
func (b *board) undivided() error {
	if !b.divided() {
		return nil
	}
	for _, f := range b.virtual {
		var numbers []int
		for _, r := range b.regions {
			if r.reachedBy(f.Address) {
				numbers = append(numbers, r.number)
			}
		}
		if len(numbers) > 1 {
			return fmt.Errorf("%w of %s: virtual function %s leads to regions %v", ErrRegion, b.Address, f.Address, numbers)
		}
	}
	return nil
}
