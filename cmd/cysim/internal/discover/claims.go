package discover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/driver/pci"
	"github.com/gocyborg/gocyborg/internal/devicespec"
)

// cyborgClaims are the devices that Cyborg's configuration assigns to Cyborg.
type cyborgClaims struct {
	drivers   []driver.Driver
	whitelist pci.Whitelist                // of the pci driver
	vgpus     map[driver.PCIAddress]string // mdev type by card
	// configured is set if a file selects the drivers: the ids that they claim then count,
	// whether such a device exists or not.
	configured bool
}

// doubleClaim is one address or pair of ids that both services claim, with the claiming
// options.
type doubleClaim struct {
	subject, cyborg, nova string
}

// claimedTwice is the error about double claims, or nil.
func claimedTwice(claims []doubleClaim) error {
	if len(claims) == 0 {
		return nil
	}
	texts := make([]string, len(claims))
	for i, c := range claims {
		texts[i] = fmt.Sprintf("%s (Cyborg: %s; Nova: %s)", c.subject, c.cyborg, c.nova)
	}
	return command.WithStatus(errors.New("claimed by both Cyborg and Nova: "+strings.Join(texts, ", ")), command.StatusClaimedTwice)
}

// claimSearch compares the claims of the two services.
type claimSearch struct {
	cyborg cyborgClaims
	nova   *novaClaims
	byNova map[string]string // the claiming option of Nova, by address
	found  []doubleClaim
}

// findDoubleClaims finds the devices that both services claim, and leaves them out of the
// reports. A device that Cyborg's drivers never offer, such as a virtual function of a
// GPU, is Nova's alone.
func findDoubleClaims(ctx context.Context, tree driver.Tree, cyborg cyborgClaims, nova *novaClaims, reports []driver.Report) ([]doubleClaim, error) {
	s := &claimSearch{cyborg: cyborg, nova: nova, byNova: make(map[string]string)}
	view := driver.NewView(tree)
	nova.resolve(view)
	functions, _, _ := view.PCIFunctions(ctx) // what cannot be read is in a report
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, f := range functions {
		state, _ := view.PCIState(f)
		if by := nova.claims(f, state); by != "" {
			s.byNova[f.Address.String()] = by
		}
	}
	for i := range reports {
		s.compareReport(cyborg.drivers[i].Name(), &reports[i])
	}
	s.compareWhitelist(functions)
	s.compareAddresses()
	s.compareIDs()
	slices.SortStableFunc(s.found, func(a, b doubleClaim) int { return cmp.Compare(a.subject, b.subject) })
	return s.found, nil
}

// add keeps the first claim of each subject.
func (s *claimSearch) add(subject, cyborg, nova string) {
	if !slices.ContainsFunc(s.found, func(c doubleClaim) bool { return c.subject == subject }) {
		s.found = append(s.found, doubleClaim{subject, cyborg, nova})
	}
}

// compareReport looks for the devices of a driver's report.
func (s *claimSearch) compareReport(name string, report *driver.Report) {
	report.LeaveOut(name, func(d driver.Device) string {
		for _, at := range d.Addresses() {
			address := at.String()
			if by := s.byNova[address]; by != "" {
				s.add(address, "driver "+name, by)
				return fmt.Sprintf("Nova claims %s, too: %s", address, by)
			}
		}
		return ""
	})
}

// compareWhitelist looks for the functions in the whitelist of the pci driver, whether
// they are offered or not.
func (s *claimSearch) compareWhitelist(functions []driver.PCIFunction) {
	for _, f := range functions {
		by := s.byNova[f.Address.String()]
		if at, err := s.cyborg.whitelist.Match(f); by != "" && err == nil && at >= 0 {
			s.add(f.Address.String(), whitelistEntry(at), by)
		}
	}
}

func whitelistEntry(i int) string { return fmt.Sprintf("[pci] passthrough_whitelist entry %d", i) }

// compareAddresses compares the addresses in both files, whether a device exists or not.
func (s *claimSearch) compareAddresses() {
	for address, typ := range s.cyborg.vgpus {
		by := s.byNova[address.String()]
		for _, m := range s.nova.mdevs {
			if by == "" && slices.Contains(m.addresses, address) {
				by = m.name
			}
		}
		if by == "" {
			by = s.novaEntry(address)
		}
		if by != "" {
			s.add(address.String(), "[vgpu_"+typ+"] device_addresses", by)
		}
	}
	for i, entry := range s.cyborg.whitelist {
		if address, ok := (novaSpec{Spec: entry}).exact(); ok {
			if by := s.novaEntry(address); by != "" {
				s.add(address.String(), whitelistEntry(i), by)
			}
		}
	}
}

// novaEntry names the entry of Nova's that has exactly this address and no ids.
func (s *claimSearch) novaEntry(address driver.PCIAddress) string {
	for _, spec := range s.nova.specs {
		if at, ok := spec.exact(); ok && at == address && wild(spec.VendorID) && wild(spec.ProductID) {
			return spec.name
		}
	}
	return ""
}

// compareIDs compares vendor and product ids of entries without an address.
func (s *claimSearch) compareIDs() {
	for _, spec := range s.nova.specs {
		for i, entry := range s.cyborg.whitelist {
			if spec.Address != nil && entry.Address != nil || entry.DevName != "" {
				continue
			}
			if !wild(spec.VendorID) && sameID(spec.VendorID, entry.VendorID) && sameID(spec.ProductID, entry.ProductID) {
				s.add(idText(spec.Spec), whitelistEntry(i), spec.name)
			}
		}
		if spec.Address == nil && s.cyborg.configured {
			s.compareDriverIDs(spec)
		}
	}
}

// compareDriverIDs compares an entry without address with the ids that the drivers claim.
// If a driver looks at the class, too, only an entry for all products is sure to overlap.
func (s *claimSearch) compareDriverIDs(spec novaSpec) {
	for _, d := range s.cyborg.drivers {
		claimer, ok := d.(driver.Claimer)
		if !ok || d.Name() == "pci" { // compareIDs compares its whitelist
			continue
		}
		for _, c := range claimer.Claims() {
			vendor, product := fmt.Sprintf("%04x", c.Vendor), fmt.Sprintf("%04x", c.Product)
			if c.Product == 0 {
				product = ""
			}
			if c.Vendor != 0 && sameID(spec.VendorID, vendor) && (wild(spec.ProductID) || sameID(spec.ProductID, product)) {
				s.add(idText(pci.Spec{VendorID: vendor, ProductID: cmp.Or(product, spec.ProductID)}), "driver "+d.Name(), spec.name)
			}
		}
	}
}

func wild(id string) bool { return normalID(id) == devicespec.Any }

// sameID compares ids in any spelling; two wildcards are the same.
func sameID(a, b string) bool { return normalID(a) == normalID(b) }

// normalID writes an id, which was checked with its entry, in one spelling.
func normalID(id string) string {
	text, _ := devicespec.Hex("id", id, 4, 0xffff)
	return text
}

// idText writes vendor and product as lspci does.
func idText(s pci.Spec) string { return normalID(s.VendorID) + ":" + normalID(s.ProductID) }

// vgpuAddresses gives the vGPU type of each card that is configured to be divided. The
// driver has refused malformed addresses.
func vgpuAddresses(config *nvidia.Config) map[driver.PCIAddress]string {
	cards := make(map[driver.PCIAddress]string)
	if config == nil {
		return cards
	}
	for _, t := range config.EnabledVGPUTypes {
		for _, text := range t.DeviceAddresses {
			if address, err := driver.ParsePCIAddress(text); err == nil {
				cards[address] = t.Name
			}
		}
	}
	return cards
}
