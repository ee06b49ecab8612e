package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/pci"
)

// errClaimedTwice marks the error that names what Cyborg and Nova both claim.
var errClaimedTwice = errors.New("claimed by both Cyborg and Nova")

// cyborgClaims is what Cyborg's configuration takes of the host's devices.
type cyborgClaims struct {
	drivers   []driver.Driver
	whitelist pci.Whitelist                // of the pci driver
	vgpus     map[driver.PCIAddress]string // mdev type by card
	// given is set when the drivers were chosen in a file: then the ids that they take
	// count as claimed, whether such a device is there or not.
	given bool
}

// doubleClaim is one address or pair of ids that both services claim.
type doubleClaim struct {
	what, cyborg, nova string
}

// claimError lists double claims.
type claimError []doubleClaim

// Error names every address and pair of ids, and by which options each is claimed.
func (e claimError) Error() string {
	texts := make([]string, len(e))
	for i, c := range e {
		texts[i] = fmt.Sprintf("%s (Cyborg: %s; Nova: %s)", c.what, c.cyborg, c.nova)
	}
	return errClaimedTwice.Error() + ": " + strings.Join(texts, ", ")
}

// Is reports errClaimedTwice.
func (e claimError) Is(target error) bool { return target == errClaimedTwice }

// claimSearch compares what the two services take.
type claimSearch struct {
	cyborg cyborgClaims
	nova   *novaClaims
	taken  map[string]string // by address: the option of Nova's
	found  claimError
}

// searchClaims finds what both claim, and leaves the devices concerned out of the
// reports. A device that Cyborg's drivers would never give away, such as a virtual
// function of a GPU, is Nova's alone.
func searchClaims(ctx context.Context, tree driver.Tree, cyborg cyborgClaims, nova *novaClaims, reports []driver.Report) (claimError, error) {
	s := &claimSearch{cyborg: cyborg, nova: nova, taken: make(map[string]string)}
	view := driver.NewView(tree)
	nova.resolve(view)
	functions, _, err := driver.PCIFunctions(ctx, view) // a problem stands in a report
	if err != nil {
		return nil, err
	}
	for _, f := range functions {
		state, _ := driver.ReadPCIState(view, f)
		if by := nova.claims(f, state); by != "" {
			s.taken[f.Address.String()] = by
		}
	}
	for i := range reports {
		s.offered(cyborg.drivers[i].Name(), &reports[i])
	}
	s.whitelisted(functions)
	s.configured()
	s.ids()
	slices.SortStableFunc(s.found, func(a, b doubleClaim) int { return cmp.Compare(a.what, b.what) })
	return s.found, nil
}

// add keeps the first finding about an address.
func (s *claimSearch) add(what, cyborg, nova string) {
	if !slices.ContainsFunc(s.found, func(c doubleClaim) bool { return c.what == what }) {
		s.found = append(s.found, doubleClaim{what, cyborg, nova})
	}
}

// offered compares what a driver reports.
func (s *claimSearch) offered(name string, report *driver.Report) {
	report.LeaveOut(name, func(d driver.Device) string {
		for _, address := range addressesOf(d) {
			if by := s.taken[address]; by != "" {
				s.add(address, "driver "+name, by)
				return fmt.Sprintf("Nova claims %s, too: %s", address, by)
			}
		}
		return ""
	})
}

// addressesOf are the PCI functions of a device and of what guests get of it. A device
// with TEST_PCI handles only is no hardware.
func addressesOf(d driver.Device) []string {
	list, real := []string{}, false
	for _, p := range d.Deployables {
		for _, h := range p.AttachHandles {
			if h.Type == driver.HandleTestPCI {
				continue
			}
			real = true
			if at, err := driver.PCIAddressOf(h.Info); err == nil {
				list = append(list, at.String())
			}
		}
	}
	if at, err := driver.PCIAddressOf(d.ControlPath.Info); err == nil && real {
		list = append(list, at.String())
	}
	return list
}

// whitelisted compares the whitelist of the pci driver with the functions present,
// offered at present or not.
func (s *claimSearch) whitelisted(functions []driver.PCIFunction) {
	for _, f := range functions {
		by := s.taken[f.Address.String()]
		if at, err := s.cyborg.whitelist.Match(f); by != "" && err == nil && at >= 0 {
			s.add(f.Address.String(), whitelistEntry(at), by)
		}
	}
}

func whitelistEntry(i int) string { return fmt.Sprintf("[pci] passthrough_whitelist entry %d", i) }

// configured compares the addresses that stand in both files, whether a device is there
// or not.
func (s *claimSearch) configured() {
	for address, typ := range s.cyborg.vgpus {
		by := s.taken[address.String()]
		for _, m := range s.nova.mdevs {
			if by == "" && slices.Contains(m.addresses, address) {
				by = m.name
			}
		}
		if by == "" {
			by = s.exactly(address)
		}
		if by != "" {
			s.add(address.String(), "[vgpu_"+typ+"] device_addresses", by)
		}
	}
	for i, entry := range s.cyborg.whitelist {
		if address, ok := (novaSpec{Spec: entry}).exact(); ok {
			if by := s.exactly(address); by != "" {
				s.add(address.String(), whitelistEntry(i), by)
			}
		}
	}
}

// exactly names the entry of Nova's that gives this very address, and no ids that may
// exclude it.
func (s *claimSearch) exactly(address driver.PCIAddress) string {
	for _, spec := range s.nova.specs {
		if at, ok := spec.exact(); ok && at == address && wild(spec.VendorID) && wild(spec.ProductID) {
			return spec.name
		}
	}
	return ""
}

// ids compares vendor and product ids, where no address narrows them down.
func (s *claimSearch) ids() {
	for _, spec := range s.nova.specs {
		for i, entry := range s.cyborg.whitelist {
			if spec.Address != nil && entry.Address != nil || entry.DevName != "" {
				continue
			}
			if !wild(spec.VendorID) && sameID(spec.VendorID, entry.VendorID) && sameID(spec.ProductID, entry.ProductID) {
				s.add(idText(spec.Spec), whitelistEntry(i), spec.name)
			}
		}
		if spec.Address == nil && s.cyborg.given {
			s.driverIDs(spec)
		}
	}
}

// driverIDs compares an entry without address with what the drivers take by id. Where a
// driver looks at the class, too, only an entry for all products surely overlaps.
func (s *claimSearch) driverIDs(spec novaSpec) {
	for _, d := range s.cyborg.drivers {
		claimer, ok := d.(driver.Claimer)
		if !ok || d.Name() == "pci" { // its whitelist is compared entry by entry
			continue
		}
		for _, c := range claimer.Claims() {
			vendor, product := fmt.Sprintf("%04x", c.Vendor), fmt.Sprintf("%04x", c.Product)
			if c.Product == 0 {
				product = ""
			}
			if c.Vendor != 0 && sameID(spec.VendorID, vendor) && (wild(spec.ProductID) || product != "" && sameID(spec.ProductID, product)) {
				s.add(idText(pci.Spec{VendorID: vendor, ProductID: cmp.Or(product, spec.ProductID)}), "driver "+d.Name(), spec.name)
			}
		}
	}
}

func wild(id string) bool { return id == "" || id == "*" }

// sameID compares ids in any spelling; two wildcards are the same.
func sameID(a, b string) bool {
	if wild(a) || wild(b) {
		return wild(a) && wild(b)
	}
	return normalID(a) == normalID(b)
}

func normalID(id string) string {
	v, err := driver.ParseHex(strings.TrimPrefix(strings.TrimSpace(id), "0x"), 4)
	if err != nil {
		return id
	}
	return fmt.Sprintf("%04x", v)
}

// idText writes vendor and product as lspci does.
func idText(s pci.Spec) string {
	product := "*"
	if !wild(s.ProductID) {
		product = normalID(s.ProductID)
	}
	return normalID(s.VendorID) + ":" + product
}
