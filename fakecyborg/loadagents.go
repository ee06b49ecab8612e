package fakecyborg

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

func (l *loading) addAgents() error {
	l.agents = make(map[string]agentState)
	for i, d := range l.d.Agents {
		_, twice := l.agents[d.Host]
		if d.Host == "" || twice {
			return fmt.Errorf("agents[%d]: host %q is empty or there twice", i, d.Host)
		}
		if err := checkTime(d.Started, d.LastBeat, d.Returns); err != nil {
			return fmt.Errorf("agents[%d] %s: %w", i, d.Host, err)
		}
		if !d.Down && (!d.LastBeat.IsZero() || !d.Returns.IsZero()) {
			return fmt.Errorf("agents[%d] %s: last_beat_at or returns_at of an agent that runs", i, d.Host)
		}
		l.agents[d.Host] = agentState{fellBack: d.FellBack, signs: lifeSigns{
			down: d.Down, started: d.Started.UTC(), last: d.LastBeat.UTC(), returns: d.Returns.UTC(),
		}}
	}
	return nil
}

// checkAgents compares with the hosts that were added. It is called under the
// lock.
func (l *loading) checkAgents() error {
	for host, known := range l.agents {
		a, ok := l.s.agents[host]
		switch {
		case !ok:
		case a.host.Name != host:
			return fmt.Errorf("agent of host %s: that is the fallback of host %s", host, a.host.Name)
		case known.fellBack && a.host.Fallback == "":
			return fmt.Errorf("agent of host %s: it fell back, and the host has no fallback", host)
		}
	}
	return nil
}

func (l *loading) addReports() error {
	l.reports = make(map[string][]DriverReport)
	previous := ""
	for i, d := range l.d.Reports {
		if d.Host == "" || cmp.Compare(d.Host, previous) < 0 {
			return fmt.Errorf("driver_reports[%d]: host %q after host %q", i, d.Host, previous)
		}
		if err := checkTime(d.At); err != nil {
			return fmt.Errorf("driver_reports[%d], host %s: %w", i, d.Host, err)
		}
		previous = d.Host
		r := DriverReport{
			Host: d.Host, Driver: d.Driver, At: d.At.UTC(), Devices: d.Devices, LeftOut: d.LeftOut, Warnings: d.Warnings, Err: errorOf(d.Error),
		}
		for _, p := range d.Problems {
			r.Problems = append(r.Problems, driver.Problem{Address: p.Address, File: p.File, Err: errorOf(p.Error)})
		}
		l.reports[d.Host] = append(l.reports[d.Host], r)
	}
	return nil
}

func errorOf(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// addPlacement prepares what the shape is to keep.
func (l *loading) addPlacement() error {
	d := dumpPlacement{}
	if l.d.Placement != nil {
		d = *l.d.Placement
	}
	l.shape = func() {}
	flat, isFlat := l.s.shape.(*flatShape)
	nested, isNested := l.s.shape.(*nestedShape)
	switch {
	case !isFlat && len(d.Hosts) > 0:
		return fmt.Errorf("placement.compute_providers with placement_mode %q", l.st.mode)
	case !isNested && len(d.Devices)+len(d.Regions) > 0:
		return fmt.Errorf("placement.device_providers or placement.regions with placement_mode %q", l.st.mode)
	case isFlat:
		hosts, err := d.flatHosts()
		l.shape = func() { flat.load(hosts) }
		return err
	case isNested:
		return l.addNested(nested, d)
	}
	return nil
}

func (f *flatShape) load(hosts map[string]*flatHost) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts = hosts
}

func (d dumpPlacement) flatHosts() (map[string]*flatHost, error) {
	hosts := make(map[string]*flatHost)
	for i, host := range d.Hosts {
		if _, twice := hosts[host.Provider]; twice || !simhttp.IsUUIDLike(host.Provider) {
			return nil, fmt.Errorf("placement.compute_providers[%d]: uuid %q is none or there twice", i, host.Provider)
		}
		if err := checkInventories(host.Inventories); err != nil {
			return nil, fmt.Errorf("placement.compute_providers[%d] %s: %w", i, host.Provider, err)
		}
		h := &flatHost{parts: make(map[string]providerWant), classes: make(map[string]inventory), traits: host.Traits, adopted: host.Adopted}
		for class, amount := range host.Inventories {
			h.classes[class] = amount
		}
		for _, p := range host.Parts {
			if _, twice := h.parts[p.Name]; twice || p.Name == "" || p.Class == "" || min(p.Total, p.Reserved) < 0 {
				return nil, fmt.Errorf("placement.compute_providers[%d] %s: deployable %q is there twice, has no name or class, or a negative amount", i, host.Provider, p.Name)
			}
			h.parts[p.Name] = providerWant{
				uuid: host.Provider, name: p.Name, class: p.Class, total: p.Total, reserved: p.Reserved, memory: p.Memory, traits: p.Traits,
			}
		}
		hosts[host.Provider] = h
	}
	return hosts, nil
}

func checkInventories(inventories map[string]inventory) error {
	for class, amount := range inventories {
		if class == "" || min(amount.Total, amount.MaxUnit, amount.Reserved) < 0 {
			return fmt.Errorf("inventory of %q: an amount is negative", class)
		}
	}
	return nil
}

func (l *loading) addNested(n *nestedShape, d dumpPlacement) error {
	regions, traits, memory := make(map[string]providerWant), make(map[string][]string), make(map[string]map[string]inventory)
	for i, device := range d.Devices {
		if _, twice := traits[device.Name]; twice || device.Name == "" {
			return fmt.Errorf("placement.device_providers[%d]: name %q is empty or there twice", i, device.Name)
		}
		if err := checkInventories(device.Inventories); err != nil {
			return fmt.Errorf("placement.device_providers[%d] %s: %w", i, device.Name, err)
		}
		traits[device.Name], memory[device.Name] = device.Traits, device.Inventories
	}
	for i, region := range d.Regions {
		if _, twice := regions[region.Name]; twice || region.Name == "" || region.Device == "" {
			return fmt.Errorf("placement.regions[%d]: name %q is empty or there twice, or it is of no device", i, region.Name)
		}
		regions[region.Name] = providerWant{name: region.Name, device: region.Device, traits: region.Traits}
	}
	l.shape = func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.regions, n.traits, n.memory = regions, traits, memory
	}
	return nil
}
