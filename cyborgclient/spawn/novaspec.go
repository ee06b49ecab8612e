package spawn

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/internal/devicespec"
)

// novaSpec is an entry of [pci]device_spec. An entry with only vendor and product matches nothing, because an attach
// handle does not contain these.
type novaSpec struct {
	text    string              // as it was written
	pattern *devicespec.Pattern // nil without an address
}

func (s novaSpec) matches(a domainxml.PCIAddress) bool {
	return s.pattern != nil && s.pattern.Match(a.Domain, a.Bus, a.Slot, a.Function)
}

// readNovaSpecs parses one value of the option. An empty text has no entries.
func readNovaSpecs(text string) ([]novaSpec, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	entries, err := devicespec.Entries(text)
	if err != nil {
		return nil, err
	}
	specs := make([]novaSpec, len(entries))
	for i, data := range entries {
		if specs[i], err = readNovaSpec(data); err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
	}
	return specs, nil
}

func readNovaSpec(data json.RawMessage) (novaSpec, error) {
	var entry struct {
		Address *devicespec.Address `json:"address"`
	}
	if err := json.Unmarshal(data, &entry); err != nil || entry.Address == nil {
		return novaSpec{text: string(data)}, err
	}
	pattern, err := entry.Address.Pattern()
	return novaSpec{text: string(data), pattern: &pattern}, err
}
