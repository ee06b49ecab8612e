package fpga

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

// base is what the three drivers have in common.
type base struct {
	name string // of the driver
	// driverName is upstream's: it is what deployables carry, and what the traits of
	// functions are made of.
	driverName string
	settings   settings
	tree       driver.Tree
	load       Loader
}

func newBase(name, driverName string, config Config, tree driver.Tree, opts []Option) (base, error) {
	s, err := config.check()
	if err != nil {
		return base{}, err
	}
	b := base{name: name, driverName: driverName, settings: s, tree: tree}
	for _, opt := range opts {
		opt(&b)
	}
	return b, nil
}

// Name returns the name that agents and operators use.
func (b *base) Name() string { return b.name }

// Tree returns the tree that the driver was made for.
func (b *base) Tree() driver.Tree { return b.tree }

// function is a PCI function with what it is used for.
type function struct {
	driver.PCIFunction
	driver.PCIState
}

// visit is one look at the hardware.
type visit struct {
	*base
	view      driver.Tree
	functions map[driver.PCIAddress]driver.PCIFunction
	order     []driver.PCIAddress
	looked    map[driver.PCIAddress]bool
	report    driver.Report
}

// look lists the functions of a tree. The error is that of ctx.
func (b *base) look(ctx context.Context, view driver.Tree) (*visit, error) {
	list, problems, err := driver.PCIFunctions(ctx, view)
	if err != nil {
		return nil, fmt.Errorf("%s: discover: %w", b.name, err)
	}
	v := &visit{
		base: b, view: view, functions: make(map[driver.PCIAddress]driver.PCIFunction, len(list)),
		looked: make(map[driver.PCIAddress]bool), report: driver.Report{Problems: problems},
	}
	for _, f := range list {
		v.functions[f.Address] = f
		v.order = append(v.order, f.Address)
	}
	return v, nil
}

// function reads the state of a function. One that cannot be understood is a problem,
// told once.
func (v *visit) function(address driver.PCIAddress) (function, bool) {
	f, ok := v.functions[address]
	if !ok {
		return function{}, false
	}
	state, problems := driver.ReadPCIState(v.view, f)
	if !v.looked[address] {
		v.looked[address] = true
		v.report.Problems = append(v.report.Problems, problems...)
	}
	return function{f, state}, len(problems) == 0
}

func (v *visit) problem(address driver.PCIAddress, file string, err error) {
	v.report.Problems = append(v.report.Problems, driver.Problem{Address: address.String(), File: file, Err: err})
}

func (v *visit) leaveOut(address driver.PCIAddress, format string, args ...any) {
	v.report.LeftOut = append(v.report.LeftOut, driver.LeftOut{
		Address: address.String(), Driver: v.name, Reason: fmt.Sprintf(format, args...),
	})
}

func (v *visit) warn(address driver.PCIAddress, format string, args ...any) {
	v.report.Warnings = append(v.report.Warnings, driver.Warning{
		Address: address.String(), Driver: v.name, Reason: fmt.Sprintf(format, args...),
	})
}

// may decides whether a function can be given to a guest, and tells if not.
func (v *visit) may(f function, kernelDrivers ...string) bool {
	verdict := v.settings.Judge(v.view, f.PCIFunction, f.PCIState, kernelDrivers...)
	v.report.Problems = append(v.report.Problems, verdict.Problems...)
	switch {
	case verdict.Refusal != "":
		v.leaveOut(f.Address, "%s", verdict.Refusal)
		return false
	case len(verdict.Problems) > 0:
		return false
	case verdict.Warning != "":
		v.warn(f.Address, "%s", verdict.Warning)
	}
	return true
}

// card is one FPGA: its physical function and the virtual ones.
type card struct {
	function
	virtual []function
	// unread are virtual functions that could not be understood.
	unread []driver.PCIAddress
	// divided is set when there are virtual functions, understood or not.
	divided bool
}

// cards gathers the functions of one kind into cards, in the order of addresses. Virtual
// functions go to their physical one: the link of either names the other.
func (v *visit) cards(mine []driver.PCIAddress) []*card {
	var found []function
	owner := make(map[driver.PCIAddress]string)
	for _, address := range mine {
		f, ok := v.function(address)
		if !ok {
			continue
		}
		found = append(found, f)
		for _, name := range f.VirtualFunctions {
			if at, err := driver.ParsePCIAddress(name); err == nil {
				owner[at] = address.String()
			}
		}
	}
	for _, f := range found {
		if _, named := owner[f.Address]; f.IsVirtual && !named {
			owner[f.Address] = f.VirtualOf
		}
	}
	var cards []*card
	for _, f := range found {
		if pf, virtual := owner[f.Address]; !virtual || v.hidden(pf) {
			cards = append(cards, &card{function: f, divided: f.Divided() != ""})
		}
	}
	v.join(cards, owner)
	return cards
}

// hidden reports whether a physical function cannot be seen from here, as in a guest that
// was given a virtual one. One that is there and was not understood is no such case.
func (v *visit) hidden(pf string) bool {
	at, err := driver.ParsePCIAddress(pf)
	_, there := v.functions[at]
	return err == nil && !there && !v.troubled(pf)
}

func (v *visit) troubled(address string) bool {
	return slices.ContainsFunc(v.report.Problems, func(p driver.Problem) bool { return p.Address == address })
}

// join gives the virtual functions to their cards.
func (v *visit) join(cards []*card, owner map[driver.PCIAddress]string) {
	byAddress := make(map[string]*card, len(cards))
	for _, c := range cards {
		byAddress[c.Address.String()] = c
	}
	for _, at := range slices.SortedFunc(maps.Keys(owner), driver.PCIAddress.Compare) {
		pf := owner[at]
		c := byAddress[pf]
		if c == nil && v.hidden(pf) {
			continue // it is a card of its own
		}
		if c == nil {
			v.leaveOut(at, "virtual function of %s, which is no FPGA that could be understood", cmp.Or(pf, "an unknown one"))
			continue
		}
		c.divided = true
		if f, ok := v.member(at, pf); ok {
			c.virtual = append(c.virtual, f)
		} else {
			c.unread = append(c.unread, at)
		}
	}
}

// member is a virtual function of a card, if it can be understood.
func (v *visit) member(at driver.PCIAddress, pf string) (function, bool) {
	file := driver.PCIDevicesDir + "/" + at.String()
	if _, there := v.functions[at]; !there {
		if !v.troubled(at.String()) {
			v.problem(at, file, fmt.Errorf("virtual function of %s: it is not on the bus", pf))
		}
		return function{}, false
	}
	f, ok := v.function(at)
	if ok && f.IsVirtual && f.VirtualOf != pf {
		v.problem(at, file+"/physfn", fmt.Errorf("%w: the link leads to %q, and %s names the function its own", driver.ErrGarbled, f.VirtualOf, pf))
		return function{}, false
	}
	return f, ok
}

// given are the functions of a card that guests may have: the virtual ones where there
// are any, for the physical one could take them from their users, else the card itself.
func (v *visit) given(c *card, kernelDrivers ...string) []function {
	if !c.divided {
		if v.may(c.function, kernelDrivers...) {
			return []function{c.function}
		}
		return nil
	}
	v.leaveOut(c.Address, "%s", cmp.Or(c.Divided(), fmt.Sprintf("physical function with virtual functions (%d)", len(c.virtual))))
	var list []function
	for _, f := range c.virtual {
		if v.may(f, kernelDrivers...) {
			list = append(list, f)
		}
	}
	return list
}

// handles are the attach handles of functions.
func handles(functions []function) []driver.AttachHandle {
	var list []driver.AttachHandle
	for _, f := range functions {
		list = append(list, driver.AttachHandle{Type: driver.HandlePCI, Info: f.Address.Info()})
	}
	return list
}

// names are the attributes of a provider that several subjects describe: the class of
// the first, the traits of all.
func (b *base) names(subjects ...driver.Subject) ([]driver.Attribute, error) {
	var class string
	var traits []string
	for i, s := range subjects {
		c, list, err := b.settings.Names(s)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			class = c
		}
		for _, trait := range list {
			if !slices.Contains(traits, trait) {
				traits = append(traits, trait)
			}
		}
	}
	return driver.Attributes(class, traits...), nil
}

// offer adds a device to the report, with its local memory.
func (v *visit) offer(d driver.Device, at driver.PCIAddress) {
	if err := v.settings.AddMemory(&d, at); err != nil {
		v.problem(at, "", err)
		return
	}
	v.report.Devices = append(v.report.Devices, d)
}

// unknown tells of configured cards that are not there. The three drivers have one
// configuration, so a card of another of them is no fault.
func (v *visit) unknown() {
	for _, at := range slices.SortedFunc(maps.Keys(v.settings.devices), driver.PCIAddress.Compare) {
		if f, there := v.functions[at]; !there || !v.anyFPGA(f) {
			v.problem(at, "", fmt.Errorf("%w: the device is configured, and no FPGA that could be read is at its address", ErrConfig))
		}
	}
}

// anyFPGA reports whether a function may be that of an FPGA, whoever drives it.
func (v *visit) anyFPGA(f driver.PCIFunction) bool {
	if _, known := v.settings.product(f); known || f.DeviceClass() == classAccelerator {
		return true
	}
	_, err := v.view.ReadDir(f.Dir() + "/fpga")
	return err == nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
