package matching

import (
	"maps"
	"slices"
	"strconv"

	"github.com/gocyborg/gocyborg/requestspec"
)

// Unchanged verifies that a device profile, read again after the accelerator requests
// were created, is the profile that was requested. Cyborg cannot change a profile, but one can
// be deleted and created again with the same name, and accelerator requests have only
// the name and the index of the group.
//
// The error is an [*Error] that matches [ErrProfileChanged] and names the first group
// and key that differ.
func Unchanged(before, after requestspec.Profile) error {
	fail := func(group int, want, got string) error {
		id := ""
		if group >= 0 {
			id = requestspec.RequesterID(group)
		}
		return &Error{RequesterID: id, Group: group, Want: want, Got: got, Err: ErrProfileChanged}
	}
	switch {
	case before.Name != after.Name:
		return fail(-1, strconv.Quote(before.Name), strconv.Quote(after.Name))
	case len(before.Groups) != len(after.Groups):
		return fail(-1, strconv.Itoa(len(before.Groups))+" groups", strconv.Itoa(len(after.Groups)))
	}
	for i := range before.Groups {
		want, got := before.Groups[i], after.Groups[i]
		keys := slices.Concat(slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)))
		slices.Sort(keys)
		for _, key := range keys {
			if wanted, found := entry(want, key), entry(got, key); wanted != found {
				return fail(i, key+" "+wanted, found)
			}
		}
	}
	return nil
}

// entry returns the quoted value of a key, or "absent".
func entry(group map[string]string, key string) string {
	if value, ok := group[key]; ok {
		return strconv.Quote(value)
	}
	return "absent"
}
