package matching

import (
	"errors"
	"strings"
)

// Sentinels; compare with [errors.Is].
var (
	// ErrNoMapping: the mappings have no provider for a group.
	ErrNoMapping = errors.New("no provider mapped")
	// ErrAmbiguous: the mappings have several providers for a group that needs one, or
	// two groups have the same requester id.
	ErrAmbiguous = errors.New("ambiguous mapping")
	// ErrCount: a group has more or fewer accelerator requests than its amounts
	// require.
	ErrCount = errors.New("wrong number of accelerator requests")
	// ErrGroupIndex: an accelerator request belongs to a group that the device
	// profile does not have.
	ErrGroupIndex = errors.New("group index out of range")
	// ErrProfile: an accelerator request was made for another device profile.
	ErrProfile = errors.New("accelerator request of another device profile")
	// ErrARQ: an accelerator request has no UUID, or occurs twice.
	ErrARQ = errors.New("unusable accelerator request")
	// ErrProfileChanged: a device profile differs from the one requested.
	ErrProfileChanged = errors.New("device profile changed")
	// ErrUnsupported: [Search] does not support a group.
	ErrUnsupported = errors.New("not supported without mappings")
	// ErrTraits: [Search] needs the traits of every provider.
	ErrTraits = errors.New("traits of a provider are missing")
	// ErrNoMatch: no assignment of the groups to providers gives the allocations.
	ErrNoMatch = errors.New("the groups do not match the allocations")
	// ErrSearchLimit: [Search] gave up. There may be an assignment.
	ErrSearchLimit = errors.New("the search takes too many steps")
)

// Error is a mismatch. It matches one of the sentinels of this package.
type Error struct {
	// RequesterID is the requester id of the group, if any.
	RequesterID string
	// Group is the index of the group in the device profile, or for [Providers] in the
	// list of groups; -1 without a group.
	Group int
	// ARQ is the UUID of the accelerator request, if any.
	ARQ string
	// Want and Got are descriptions, such as "2 ARQs" and "1".
	Want, Got string
	// Err is the sentinel.
	Err error
}

// Error returns the group, the accelerator request, and the expected and actual values.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("matching")
	if e.RequesterID != "" {
		b.WriteString(" group " + e.RequesterID)
	}
	if e.ARQ != "" {
		b.WriteString(" arq " + e.ARQ)
	}
	b.WriteString(": " + e.Err.Error() + ": want " + e.Want + ", got " + e.Got)
	return b.String()
}

// Unwrap returns the sentinel.
func (e *Error) Unwrap() error { return e.Err }
