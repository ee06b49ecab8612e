package nova

import (
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/internal/schema"
)

// Release is a release of Nova, see [ParseRelease].
type Release struct {
	version, series string
	maxMinor        int            // the highest microversion is 2.N
	jsonschema      schema.Library // of the upper constraints of the series
	ownerTrait      string         // on every resource provider that nova-compute makes; empty: none
}

// Releases are the known releases with what a client of this server sees of them, oldest first. The point releases of a version do
// not differ. The microversions come from nova/api/openstack/api_version_request.py, the trait from commit dc56671.
func Releases() []Release {
	return []Release{
		{"26", "zed", 93, 14, ""},
		{"27", "2023.1", 95, 16, ""},
		{"28", "2023.2", 95, 17, ""},
		{"29", "2024.1", 96, 19, ""},
		{"30", "2024.2", 96, 19, ""},
		{"31", "2025.1", 100, 23, ""},
		{"32", "2025.2", 100, 25, ""},
		{"33", "2026.1", 103, 26, ""},
		{"34", "2026.2", 104, 26, "OWNER_NOVA"},
	}
}

// ParseRelease finds the release of a version, such as "30", or of a series, such as "2024.2" or "zed"; empty is the newest. The error
// lists the known releases.
func ParseRelease(name string) (Release, error) {
	if name == "" {
		return newest(), nil
	}
	var known []string
	for _, r := range Releases() {
		if name == r.version || name == r.series {
			return r, nil
		}
		known = append(known, r.series+" "+r.version)
	}
	return Release{}, fmt.Errorf("unknown release %q of Nova (known: %s)", name, strings.Join(known, ", "))
}

func newest() Release {
	all := Releases()
	return all[len(all)-1]
}

// OwnerTraits are the traits by which nova-compute marks the resource providers that it makes.
func (r Release) OwnerTraits() []string {
	if r.ownerTrait == "" {
		return nil
	}
	return []string{r.ownerTrait}
}

// Series is the name of the series, such as "2024.2".
func (r Release) Series() string { return r.series }

// String is the version.
func (r Release) String() string { return r.version }
