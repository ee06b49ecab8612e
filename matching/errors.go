package matching

import (
	"errors"
	"strings"
)

// What does not fit, to be compared with [errors.Is].
var (
	// ErrNoMapping: the mappings name no provider for a group.
	ErrNoMapping = errors.New("no provider mapped")
	// ErrAmbiguous: the mappings name several providers for a group that must
	// have one, or two groups have the same requester id.
	ErrAmbiguous = errors.New("ambiguous mapping")
	// ErrCount: a group has more or fewer accelerator requests than its amounts
	// call for.
	ErrCount = errors.New("wrong number of accelerator requests")
	// ErrGroupIndex: an accelerator request belongs to a group that the device
	// profile does not have.
	ErrGroupIndex = errors.New("group index out of range")
	// ErrProfile: an accelerator request was made for another device profile.
	ErrProfile = errors.New("accelerator request of another device profile")
	// ErrARQ: an accelerator request has no UUID, or occurs twice.
	ErrARQ = errors.New("unusable accelerator request")
)

// Error says what does not fit, where, and what was expected. It satisfies
// errors.Is with one of the sentinels of this package.
type Error struct {
	// RequesterID is the requester id of the group in question; empty when no
	// group is.
	RequesterID string
	// Group is the index of the group in the device profile, or in the list of
	// groups for [Providers]; -1 when no group is in question.
	Group int
	// ARQ is the UUID of the accelerator request in question, if one is.
	ARQ string
	// Want and Got are in words, for example "2 ARQs" and "1".
	Want, Got string
	// Err is the sentinel.
	Err error
}

// Error names the group, the accelerator request, and what was wanted and found.
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
