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

// invalidEntry returns the error of an entry of a device profile, or without a key
// of the whole part, such as ` "gpu" group 0`.
func invalidEntry(part, key, value, problem string) error {
	if key != "" {
		part += fmt.Sprintf(" key %q", key)
	}
	if quoted := strconv.Quote(value); key != "" && !strings.Contains(problem, quoted) {
		problem += ", its value is " + quoted
	}
	return fmt.Errorf("requestspec: %w%s: %s", ErrInvalidProfile, part, problem)
}

func groupPart(profile string, group int) string { return fmt.Sprintf(" %q group %d", profile, group) }
