package placementsim

import (
	"fmt"
	"strings"

	"github.com/gocyborg/gocyborg/internal/schema"
)

// Release is a release of Placement: a version such as "12.0.2", or a series such as "2024.2" or "zed", which is its last
// version. [Releases] lists them; docs/placement-api.md has the table of their differences.
type Release string

const (
	// Release20262 is the default release, Placement 16.
	Release20262 Release = "2026.2"
	// ReleaseZed is Placement 8.
	ReleaseZed Release = "zed"
)

// Releases lists the versions of Placement that are known, oldest first. Their series are releases, too.
func Releases() []Release {
	var list []Release
	for _, r := range releases() {
		list = append(list, r.version)
	}
	return list
}

// release is what a release of Placement does differently from another.
type release struct {
	version, series Release
	options         candidateOptions
	overfull        overfullWrites
	operators       []string // the roles that allow most operations, each alone
	policy          Policy   // without configuration
	jsonschema      schema.Library
	python          schema.Python
	osTraits        string
}

// candidateOptions are the options about the generation of candidates that a release has.
type candidateOptions int

const (
	noOptions   candidateOptions = iota
	withMaximum                  // max_allocation_candidates and allocation_candidates_generation_strategy
	withTrees                    // these, and optimize_for_wide_provider_trees
)

// overfullWrites is the answer to a write that lowers the use of an inventory that stays over its capacity.
type overfullWrites int

const (
	refused  overfullWrites = iota // 409
	accepted                       // 204
)

// releases are the known releases with their differences, oldest first. Microversions (1.0 to 1.39) and allocation candidates are
// the same in all of them.
//
//   - Options: placement/conf/placement.py and workarounds.py; the first two were backported to 10.0.1, 11.0.1 and 12.0.1, the last one
//     to 12.0.2.
//   - Over-full inventories: commit 5ac4c70 (LP 2104040).
//   - Roles and policy: commit 636d65e3; oslo.policy enforces new defaults and scope since 4.4.0, which is in 2024.2.
//   - jsonschema and os-traits: the upper constraints of the series. A distribution may have others.
//   - Python: Debian 12 has 3.11 with 8.0.0, Debian 13 has 3.13 with 13.0.0, and sid 3.14 with 16.0.0; what is between them is a guess.
func releases() []release {
	admin, both := []string{"admin"}, []string{"admin", "service"}
	return []release{
		{"8.0.0", "zed", noOptions, refused, admin, PolicyDefault, 14, 11, "2.9.0"},
		{"9.0.0", "2023.1", noOptions, refused, both, PolicyDefault, 16, 11, "2.10.0"},
		{"10.0.0", "2023.2", noOptions, refused, both, PolicyDefault, 17, 12, "3.0.0"},
		{"10.0.1", "2023.2", withMaximum, refused, both, PolicyDefault, 17, 12, "3.0.0"},
		{"11.0.0", "2024.1", noOptions, refused, both, PolicyDefault, 19, 12, "3.0.0"},
		{"11.0.1", "2024.1", withMaximum, refused, both, PolicyDefault, 19, 12, "3.0.0"},
		{"12.0.0", "2024.2", noOptions, refused, both, PolicySecure, 19, 12, "3.1.0"},
		{"12.0.1", "2024.2", withMaximum, refused, both, PolicySecure, 19, 12, "3.1.0"},
		{"12.0.2", "2024.2", withTrees, refused, both, PolicySecure, 19, 12, "3.1.0"},
		{"13.0.0", "2025.1", withMaximum, refused, both, PolicySecure, 23, 13, "3.3.0"},
		{"14.0.0", "2025.2", withMaximum, accepted, both, PolicySecure, 25, 13, "3.5.0"},
		{"15.0.0", "2026.1", withTrees, accepted, both, PolicySecure, 26, 13, "3.6.0"},
		{"16.0.0", "2026.2", withTrees, accepted, both, PolicySecure, 26, 14, "3.9.0"},
	}
}

// find returns the row of a release. A series has the row of its last version. The error matches [ErrConfig].
func (r Release) find() (found release, err error) {
	var known []string
	for _, row := range releases() {
		if r == row.version || r == row.series {
			found = row
		}
		known = append(known, fmt.Sprintf("%s %s", row.series, row.version))
	}
	if found.version == "" {
		err = fmt.Errorf("%w: unknown release %q (known: %s)", ErrConfig, r, strings.Join(known, ", "))
	}
	return found, err
}

// check refuses what the release does not have. The error matches [ErrConfig].
func (r release) check(cfg Config) error {
	switch {
	case r.options < withMaximum && (cfg.MaxAllocationCandidates > 0 || cfg.GenerationStrategy != ""):
		return fmt.Errorf("%w: release %s has neither max_allocation_candidates nor allocation_candidates_generation_strategy", ErrConfig, r.version)
	case r.options < withTrees && cfg.OptimizeForWideProviderTrees:
		return fmt.Errorf("%w: release %s does not have optimize_for_wide_provider_trees", ErrConfig, r.version)
	case r.version == "8.0.0" && cfg.Policy == PolicySecure: // its new defaults want system scope
		return fmt.Errorf("%w: release %s has no policy %s for projects", ErrConfig, r.version, cfg.Policy)
	}
	return nil
}

// enforcesScope reports whether a token that is scoped to the system is refused by rules for projects.
func (r release) enforcesScope(policy Policy) bool {
	return r.policy == PolicySecure || policy == PolicySecure
}
