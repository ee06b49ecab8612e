package transfer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Validate checks what the services that load the rows of the listing do not: its version,
// that ids are UUIDs, inventories, and that resource providers are trees. The error matches
// [ErrListing].
func (l Listing) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: %s", ErrListing, fmt.Sprintf(format, args...)))
	}
	if l.SchemaVersion != ListingSchema {
		fault("schema_version: %d, want %d", l.SchemaVersion, ListingSchema)
	}
	if l.ReadAt.IsZero() {
		fault("read_at: missing")
	}
	_, err := l.eachText(func(field, text string) string {
		if isID(field) && text != "" && bareHex(text) == "" {
			fault("%s: %q is not a UUID", field, text)
		}
		return text
	})
	if err != nil {
		return err
	}
	parents := make(map[string]string)
	for _, p := range l.Placement.ResourceProviders {
		if _, twice := parents[p.UUID]; twice {
			fault("resource provider %s is listed twice", p.UUID)
		}
		parents[p.UUID] = p.Parent
		for _, class := range slices.Sorted(maps.Keys(p.Inventories)) {
			if i := p.Inventories[class]; min(i.Total, i.MinUnit, i.MaxUnit, i.StepSize, i.Reserved+1) < 1 || i.AllocationRatio <= 0 {
				fault("resource provider %s: inventory of %s: %+v", p.UUID, class, i)
			}
		}
	}
	for _, p := range l.Placement.ResourceProviders {
		if _, listed := parents[p.Parent]; p.Parent != "" && !listed {
			fault("resource provider %s: its parent %s is not listed", p.UUID, p.Parent)
		}
		at := p.Parent
		for steps := 0; at != "" && steps < len(parents); steps++ {
			at = parents[at]
		}
		if at != "" {
			fault("resource provider %s is below itself", p.UUID)
			break
		}
	}
	return errors.Join(faults...)
}
