package domainxml

import (
	"slices"
	"strings"
)

// Difference compares a domain with a list of devices.
type Difference struct {
	// Missing are the devices of the list that the domain lacks, in the list's order.
	Missing []Hostdev
	// Present are the devices that it has, as given in the list.
	Present []Hostdev
	// Stale are the PCI and mediated host devices of the domain whose alias names an
	// accelerator request, see [Hostdevs], and that are not in the list, or for another
	// request: it has another device now, or is deleted. Then its network interfaces of type
	// hostdev that have the PCI function or the MAC address of one in the list, and the other
	// not: the port has another function now.
	Stale []Hostdev
	// Foreign are the others of the domain that are not in the list: Nova's own, which
	// Nova has to keep when it regenerates the domain, or those of deleted accelerators
	// without an alias.
	Foreign []Hostdev
}

// Diff compares a domain with the devices that it should have: those of [Hostdevs]
// with its host devices, those of [Interfaces] with its interfaces. The errors are
// those of [Merge], except that the domain may have a device already.
func Diff(domain []byte, devices []Hostdev) (Difference, error) {
	p, err := parse(domain)
	if err != nil {
		return Difference{}, err
	}
	holders := map[string]string{}
	wanted, err := completeAll(devices, holders)
	if err != nil {
		return Difference{}, err
	}
	var diff Difference
	for _, d := range wanted {
		if p.has(d) {
			diff.Present = append(diff.Present, d)
		} else {
			diff.Missing = append(diff.Missing, d)
		}
	}
	for _, d := range p.devices {
		i := slices.IndexFunc(wanted, func(w Hostdev) bool { return w.Interface == nil && w.String() == d.String() })
		switch {
		case i >= 0 && wanted[i].is(d):
		case d.ARQ != "":
			diff.Stale = append(diff.Stale, d)
		case i < 0:
			diff.Foreign = append(diff.Foreign, d)
		}
	}
	for _, have := range p.interfaces {
		if !slices.ContainsFunc(wanted, func(w Hostdev) bool { return w.Interface != nil && w.is(have) }) &&
			slices.ContainsFunc(wanted, func(w Hostdev) bool { return w.replaces(have) }) {
			diff.Stale = append(diff.Stale, have)
		}
	}
	return diff, nil
}

// replaces reports whether this is an interface that has the function or the MAC address of have.
func (d Hostdev) replaces(have Hostdev) bool {
	return d.Interface != nil && (d.String() == have.String() || have.mac() != "" && strings.EqualFold(d.mac(), have.mac()))
}

// Complete is [Merge] for a domain that may have some of the devices: it adds the
// missing ones and removes stale ones. When Nova regenerates the domain of a guest, it keeps the mediated
// devices of the old domain, so Merge would find Cyborg's already present.
//
// A present host device without an alias, or with one that libvirt does not keep (hostdev0), gets
// the alias of its accelerator request, see [Hostdevs], so that a later call recognizes it as
// stale. An alias of the operator (ua-...) stays. A domain that needs nothing is unchanged.
func Complete(domain []byte, devices []Hostdev) ([]byte, error) {
	diff, err := Diff(domain, devices)
	if err != nil {
		return nil, err
	}
	if domain, err = Remove(domain, diff.Stale); err != nil {
		return nil, err
	}
	if domain, err = mark(domain, diff.Present); err != nil {
		return nil, err
	}
	return Merge(domain, diff.Missing)
}
