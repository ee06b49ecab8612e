package domainxml

// Difference compares a domain with a list of devices.
type Difference struct {
	// Missing are the devices of the list that the domain lacks, in the list's order.
	Missing []Device
	// Present are those that it has, as given in the list.
	Present []Device
	// Foreign are the PCI and mediated host devices of the domain that are not in
	// the list: Nova's own, which Nova has to keep when it regenerates the domain, or
	// those of deleted accelerators.
	Foreign []Device
}

// Diff compares a domain with the devices that it should have: those of [Hostdevs]
// with its host devices, those of [Interfaces] with its interfaces. The errors are
// those of [Merge], except that the domain may have a device already.
func Diff(domain []byte, devices []Device) (Difference, error) {
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
		if _, ours := holders[d.String()]; !ours {
			diff.Foreign = append(diff.Foreign, d)
		}
	}
	return diff, nil
}

// Complete is [Merge] for a domain that may have some of the devices: it adds the
// missing ones. When Nova regenerates the domain of a guest, it keeps the mediated
// devices of the old domain, so Merge would find Cyborg's already present.
func Complete(domain []byte, devices []Device) ([]byte, error) {
	diff, err := Diff(domain, devices)
	if err != nil {
		return nil, err
	}
	return Merge(domain, diff.Missing)
}
