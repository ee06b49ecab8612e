package domainxml

// Difference is what a domain lacks against a list of devices, and what it has
// beyond them.
type Difference struct {
	// Missing are the devices of the list that the domain has not, in their order.
	Missing []Device
	// Present are those that it has, as the list names them.
	Present []Device
	// Foreign are the PCI and mediated host devices of the domain that are not in
	// the list: Nova's own, or those of accelerators long gone.
	Foreign []Device
}

// Diff compares a domain with the devices that it should have: those of
// [Hostdevs] among its host devices, those of [Interfaces] among its interfaces.
// The errors are those of [Merge], but a device that the domain has already is
// none.
func Diff(domain []byte, devices []Device) (Difference, error) {
	p, err := parse(domain)
	if err != nil {
		return Difference{}, err
	}
	var diff Difference
	holders := map[string]string{}
	for i, d := range devices {
		d, err := d.complete()
		if err != nil {
			return Difference{}, err
		}
		if holder, taken := holders[d.String()]; taken {
			return Difference{}, &DuplicateError{Device: d.String(), ARQ: d.ARQ, Holder: holder}
		}
		holders[d.String()] = listed(i, d)
		if p.has(d) {
			diff.Present = append(diff.Present, d)
		} else {
			diff.Missing = append(diff.Missing, d)
		}
	}
	for _, d := range p.devices {
		if _, ours := holders[d.String()]; !ours {
			diff.Foreign = append(diff.Foreign, d)
		}
	}
	return diff, nil
}

// Complete is [Merge] for a domain that may have some of the devices: it adds
// those that are missing. The domain of a guest that starts again has its
// mediated devices already, since whoever regenerates it takes over those of the
// old one; in a merge each of Cyborg's would be there twice.
func Complete(domain []byte, devices []Device) ([]byte, error) {
	diff, err := Diff(domain, devices)
	if err != nil {
		return nil, err
	}
	return Merge(domain, diff.Missing)
}

// NovaMdevs lists the mediated devices of a domain that come from none of the
// handles: those that Nova has to take over itself when it regenerates the
// domain. The error is [ErrNotDomain].
func NovaMdevs(domain []byte, handles []Handle) ([]string, error) {
	devices, err := Read(domain)
	if err != nil {
		return nil, err
	}
	ours := map[string]bool{}
	for _, h := range handles {
		if uuid, err := canonicalUUID(h.UUID); err == nil && h.Type == HandleMDEV {
			ours[uuid] = true
		}
	}
	var mdevs []string
	for _, d := range devices {
		if d.MDEV != "" && !ours[d.MDEV] {
			mdevs = append(mdevs, d.MDEV)
		}
	}
	return mdevs, nil
}
