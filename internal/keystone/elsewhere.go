package keystone

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// Elsewhere are the URLs of services that are not of this cloud, by their types.
type Elsewhere map[string]string

// Check refuses services that are always part of this cloud, and invalid URLs. The error names the type.
func (e Elsewhere) Check() error {
	for _, kind := range slices.Sorted(maps.Keys(e)) {
		if slices.Contains([]string{"", "identity", "placement", "accelerator"}, kind) {
			return fmt.Errorf("%q: this service cannot be elsewhere", kind)
		}
		if err := simhttp.CheckBase(e[kind]); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// Catalog is a catalog with these services, which replace the entries of their types.
func (e Elsewhere) Catalog(list []CatalogEntry) []CatalogEntry {
	names := map[string]string{"compute": "nova", "image": "glance", "network": "neutron"}
	list = slices.Clone(list)
	for _, kind := range slices.Sorted(maps.Keys(e)) {
		entry := CatalogEntry{Type: kind, Name: cmp.Or(names[kind], kind), URL: strings.TrimSuffix(e[kind], "/")}
		if i := slices.IndexFunc(list, func(c CatalogEntry) bool { return c.Type == kind }); i >= 0 {
			list[i] = entry
		} else {
			list = append(list, entry)
		}
	}
	return list
}
