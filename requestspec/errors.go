package requestspec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// What can be wrong with the input, to be compared with [errors.Is].
var (
	// ErrInvalidProfile: a device profile that can never be scheduled, or a
	// profile file of the wrong form.
	ErrInvalidProfile = errors.New("invalid device profile")
	// ErrInvalidFlavor: a flavor whose amounts are out of range, that does not
	// fit the given device profile, or a flavor file of the wrong form.
	ErrInvalidFlavor = errors.New("invalid flavor")
	// ErrInvalidGroup: a group handed in through [Options] without requester
	// id, without content, or with an amount out of range.
	ErrInvalidGroup = errors.New("invalid request group")
	// ErrDuplicateSuffix: two groups of one request have the same requester id,
	// Nova's RequestGroupSuffixConflict.
	ErrDuplicateSuffix = errors.New("duplicate request group suffix")
)

// ProfileError says what is wrong in one group of a device profile. It
// satisfies errors.Is with [ErrInvalidProfile].
type ProfileError struct {
	// Profile is the name of the device profile.
	Profile string
	// Group is the index of the group, from 0; -1 when the profile as a whole
	// is meant.
	Group int
	// Key is the offending key of the group as it was given; empty when the
	// group as a whole is meant.
	Key string
	// Value is what stands under Key.
	Value string
	// Problem is the cause, in words.
	Problem string
}

// Error names profile, group index, key and value, as far as they apply, and the cause.
func (e *ProfileError) Error() string {
	text := fmt.Sprintf("requestspec: device profile %q", e.Profile)
	if e.Group >= 0 {
		text += fmt.Sprintf(" group %d", e.Group)
	}
	if e.Key != "" {
		text += fmt.Sprintf(" key %q", e.Key)
	}
	text += ": " + e.Problem
	if value := strconv.Quote(e.Value); e.Key != "" && !strings.Contains(e.Problem, value) {
		text += ", its value is " + value
	}
	return text
}

// Unwrap returns [ErrInvalidProfile].
func (e *ProfileError) Unwrap() error { return ErrInvalidProfile }
