package simcloud

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// The names of the parts of a state that are no component's.
const (
	partModel = "model"
	partClock = "clock"
	// hostPrefix begins the name of the part of a host.
	hostPrefix = "hosts/"
	// allParts stands for every part, partHosts for those of the hosts, and partSmall for
	// those that are looked at with every change: rules count requests, and time goes on.
	allParts  = "all"
	partHosts = "hosts"
	partSmall = "small"
)

// part is what one component knows.
type part struct {
	name string
	dump func() ([]byte, error)
	load func([]byte) error
}

// family is what the part is called by those who touch it.
func (p part) family() string {
	switch {
	case strings.HasPrefix(p.name, hostPrefix):
		return partHosts
	case p.name == partClock || p.name == "faults":
		return partSmall
	}
	return p.name
}

// touchedBy lists what a request to a path may change by itself; what it causes at other
// services are requests of their own.
func touchedBy(path string) []string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "placement", "compute", "image":
		return []string{first, partSmall}
	case "accelerator": // its peers want tokens, its agents work on the hardware
		return []string{first, partHosts, "identity", partSmall}
	case "_sim":
		return []string{allParts}
	}
	return []string{"identity", partSmall}
}

// parts are those that must be there. The hardware comes behind Cyborg, whose agents mend
// at their start what only one of the two has.
func (c *Cloud) parts() []part {
	list := []part{
		{partModel, func() ([]byte, error) { return marshalModel(c.model) }, func([]byte) error { return nil }},
		{"identity", c.identity.Dump, c.identity.Load},
		{"placement", c.Placement.Dump, c.Placement.Load},
		{"accelerator", c.Cyborg.Dump, c.Cyborg.Load},
		{"compute", c.compute.Dump, c.compute.Load},
		{"image", c.images.Dump, c.images.Load},
		{"faults", c.faults.Dump, c.faults.Load},
	}
	for _, m := range c.machines {
		list = append(list, part{hostPrefix + m.host.Name, m.dump, m.load})
	}
	if clock, ok := c.clock.(*sim.ManualClock); ok {
		list = append(list, part{
			partClock,
			func() ([]byte, error) { return json.Marshal(clock.Now().UTC()) },
			func(data []byte) error { return loadClock(clock, data) },
		})
	}
	return list
}

// marshalModel is the form of a model in a state.
func marshalModel(m Model) ([]byte, error) { return json.Marshal(m) }

// joinState makes one document of the parts.
func joinState(parts map[string][]byte) ([]byte, error) {
	d := stateDocument{SchemaVersion: simhttp.DumpSchema, Hosts: make(map[string]json.RawMessage)}
	for name, data := range parts {
		if host, ok := strings.CutPrefix(name, hostPrefix); ok {
			d.Hosts[host] = data
			continue
		}
		if name == partClock {
			if err := json.Unmarshal(data, &d.Clock); err != nil {
				return nil, fmt.Errorf("%w: clock: %w", ErrState, err)
			}
			continue
		}
		*d.member(name) = data
	}
	return json.MarshalIndent(d, "", "  ")
}

// member is where a part stands in the document; nil for a name that none has.
func (d *stateDocument) member(name string) *json.RawMessage {
	return map[string]*json.RawMessage{
		partModel: &d.Model, "identity": &d.Identity, "placement": &d.Placement, "accelerator": &d.Accelerator,
		"compute": &d.Compute, "image": &d.Image, "faults": &d.Faults,
	}[name]
}

// splitState takes a document apart; the error matches [ErrState].
func splitState(data []byte) (map[string][]byte, error) {
	var d stateDocument
	if err := simhttp.DecodeDump(data, &d, &d.SchemaVersion); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	parts := make(map[string][]byte)
	for _, name := range []string{partModel, "identity", "placement", "accelerator", "compute", "image", "faults"} {
		raw := *d.member(name)
		if raw == nil {
			return nil, fmt.Errorf("%w: %s is missing", ErrState, name)
		}
		parts[name] = raw
	}
	for host, raw := range d.Hosts {
		parts[hostPrefix+host] = raw
	}
	if d.Clock != nil {
		now, err := json.Marshal(d.Clock)
		if err != nil {
			return nil, fmt.Errorf("%w: clock: %w", ErrState, err)
		}
		parts[partClock] = now
	}
	return parts, nil
}

// loadClock sets a clock to a time in JSON.
func loadClock(clock *sim.ManualClock, data []byte) error {
	var now time.Time
	if err := json.Unmarshal(data, &now); err != nil {
		return fmt.Errorf("%w: clock: %w", ErrState, err)
	}
	clock.Set(now)
	return nil
}
