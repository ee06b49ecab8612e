package requestspec

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Sentinels; compare with [errors.Is].
var (
	// ErrInvalidProfile: a device profile that can never be scheduled, or a
	// malformed profile file.
	ErrInvalidProfile = errors.New("invalid device profile")
	// ErrInvalidFlavor: a flavor whose amounts are out of range or that names
	// another device profile, or a malformed flavor file.
	ErrInvalidFlavor = errors.New("invalid flavor")
	// ErrInvalidGroup: a group of [Options] without requester id, without content,
	// or with an amount out of range.
	ErrInvalidGroup = errors.New("invalid request group")
	// ErrDuplicateSuffix: two groups of one request have the same requester id,
	// Nova's RequestGroupSuffixConflict.
	ErrDuplicateSuffix = errors.New("duplicate request group suffix")
	// ErrInvalidPort: a port that cannot get an accelerator by its device profile.
	ErrInvalidPort = errors.New("invalid port")
)

// ProfileError describes a mistake in a group of a device profile. It matches
// [ErrInvalidProfile].
type ProfileError struct {
	// Profile is the name of the device profile.
	Profile string
	// Group is the index of the group, from 0; -1 for the whole profile.
	Group int
	// Key is the wrong key of the group, as given; empty for the whole group.
	Key string
	// Value is the value of Key.
	Value string
	// Problem is the cause.
	Problem string
}

// Error returns profile, group index, key and value, if set, and the cause.
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
