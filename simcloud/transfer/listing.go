package transfer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// listingSchema is the version of the JSON form of a listing. Version 1 had its own forms instead
// of the services' forms.
const listingSchema = 2

// ErrListing is matched by every error about a listing that no cloud can be made of.
var ErrListing = errors.New("transfer: bad listing")

// Listing is what a real cloud answers to read-only requests about its accelerators.
type Listing struct{ answers answers }

// ParseListing reads a listing from JSON and checks it. The error matches [ErrListing].
//
// A listing is an object with schema_version 2, read_at, region, placement and, if the cloud
// has a Cyborg, accelerator. These have the members of the answers: placement those of GET
// resource_classes, traits and resource_providers; each resource provider also those of GET
// inventories, traits and aggregates below it. The list consumers has the answer to GET
// allocations/UUID of each consumer, and its uuid. The object accelerator has the members of
// GET devices, deployables, attributes, device_profiles and accelerator_requests. Other
// members are ignored.
func ParseListing(data []byte) (Listing, error) {
	var l Listing
	err := json.Unmarshal(data, &l.answers)
	if version := l.answers.SchemaVersion; version == 1 {
		err = errors.New("schema_version 1, the form of an earlier release, cannot be read; list the cloud again")
	} else if err == nil && version != listingSchema {
		err = fmt.Errorf("schema_version: %d, want %d", version, listingSchema)
	}
	if err != nil {
		return Listing{}, fmt.Errorf("%w: %w", ErrListing, err)
	}
	return l, l.check()
}

// JSON writes the listing as [ParseListing] reads it, with what an import needs.
func (l Listing) JSON() ([]byte, error) { return json.Marshal(l.answers) }

// check checks what the services that load the rows of the listing do not: that ids are
// UUIDs, that no resource provider is listed twice, and inventories.
func (l Listing) check() error {
	if l.answers.ReadAt.IsZero() {
		return fmt.Errorf("%w: read_at: missing", ErrListing)
	}
	var fault error
	_, err := l.eachText(func(field, text string) string {
		if field == "null" {
			fault = fmt.Errorf("%w: a list has null", ErrListing)
		} else if isID(field) && text != "" && bareHex(text) == "" {
			fault = fmt.Errorf("%w: %s: %q is not a UUID", ErrListing, field, text)
		}
		return text
	})
	if err := cmp.Or(err, fault); err != nil {
		return err
	}
	providers := make(map[string]bool)
	for _, p := range l.answers.Placement.Providers {
		if providers[p.UUID] {
			return fmt.Errorf("%w: resource provider %s is listed twice", ErrListing, p.UUID)
		}
		providers[p.UUID] = true
		for class, i := range p.Inventories {
			if min(i.Total, i.MinUnit, i.MaxUnit, i.StepSize, i.Reserved+1) < 1 || i.AllocationRatio <= 0 {
				return fmt.Errorf("%w: resource provider %s: inventory of %s: %+v", ErrListing, p.UUID, class, i)
			}
		}
	}
	return nil
}
