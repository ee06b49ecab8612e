package matching

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/requestspec"
)

// Unmatched has the fields of a Cyborg accelerator request that [Matches] needs.
type Unmatched struct {
	// UUID identifies the request.
	UUID string
	// Group is its device_profile_group_id, an index into the groups of the profile.
	Group int
	// DeviceProfileName is the name of its device profile.
	DeviceProfileName string
}

// Match assigns an accelerator request to a provider.
type Match struct {
	// ARQ is the UUID of the accelerator request.
	ARQ string `json:"arq"`
	// DeviceRP is the UUID of the device's resource provider.
	DeviceRP string `json:"device_rp"`
	// Group is the index of its group in the device profile.
	Group int `json:"group"`
}

// Providers returns the provider of each suffixed group, by requester id. mappings come from an
// allocation candidate: the UUIDs of the providers of each group by requester id. The unsuffixed
// group, which may have several, and other groups are ignored.
//
// Errors are of type [*Error]: [ErrNoMapping] when a group has no provider or an empty
// UUID, [ErrAmbiguous] when it has several providers or its requester id occurs twice.
func Providers(groups []requestspec.Group, mappings map[string][]string) (map[string]string, error) {
	providers := make(map[string]string, len(groups))
	for i, g := range groups {
		if g.RequesterID == "" {
			continue
		}
		if _, twice := providers[g.RequesterID]; twice {
			return nil, secondGroup(i, g.RequesterID)
		}
		provider, err := onlyProvider(mappings, i, g.RequesterID)
		if err != nil {
			return nil, err
		}
		providers[g.RequesterID] = provider
	}
	return providers, nil
}

// secondGroup is the error of a group whose requester id another one has.
func secondGroup(group int, id string) error {
	return &Error{RequesterID: id, Group: group, Err: ErrAmbiguous, Want: "one group of this requester id", Got: "a second"}
}

// onlyProvider returns the provider of a group.
func onlyProvider(mappings map[string][]string, group int, id string) (string, error) {
	uuids := mappings[id]
	fail := func(sentinel error, got string) (string, error) {
		return "", &Error{RequesterID: id, Group: group, Want: "one provider", Got: got, Err: sentinel}
	}
	switch {
	case len(uuids) == 0:
		return fail(ErrNoMapping, "none")
	case len(uuids) > 1:
		return fail(ErrAmbiguous, fmt.Sprintf("%d: %s", len(uuids), strings.Join(uuids, ", ")))
	case uuids[0] == "":
		return fail(ErrNoMapping, "an empty UUID")
	}
	return uuids[0], nil
}

// Matches assigns each of arqs, in order, to the provider of its group. It checks, in
// this order:
//   - [requestspec.ParseProfile] accepts the profile;
//   - every request has a UUID, none occurs twice ([ErrARQ]), each belongs to this
//     profile ([ErrProfile]) and to an existing group ([ErrGroupIndex]);
//   - every group has [requestspec.ARQCount] requests ([ErrCount]);
//   - every group has exactly one provider ([ErrNoMapping], [ErrAmbiguous]).
//
// Errors of the last three are of type [*Error]. The first error is returned, in the
// order of the requests, then of the groups.
func Matches(profile requestspec.Profile, mappings map[string][]string, arqs []Unmatched) ([]Match, error) {
	groups, err := requestspec.ParseProfile(profile.Name, profile.Groups)
	if err != nil {
		return nil, err
	}
	counts, err := countARQs(profile, arqs)
	if err != nil {
		return nil, err
	}
	for i, group := range profile.Groups {
		want, err := requestspec.ARQCount(group)
		if err != nil {
			return nil, err
		}
		if counts[i] != want {
			return nil, &Error{RequesterID: requestspec.RequesterID(i), Group: i, Err: ErrCount,
				Want: strconv.Itoa(want) + " ARQs", Got: strconv.Itoa(counts[i])}
		}
	}
	providers, err := Providers(groups, mappings)
	if err != nil {
		return nil, err
	}
	matches := make([]Match, 0, len(arqs))
	for _, arq := range arqs {
		rp := providers[requestspec.RequesterID(arq.Group)]
		matches = append(matches, Match{ARQ: arq.UUID, DeviceRP: rp, Group: arq.Group})
	}
	return matches, nil
}

// countARQs checks each request and counts them by group.
func countARQs(profile requestspec.Profile, arqs []Unmatched) ([]int, error) {
	counts := make([]int, len(profile.Groups))
	seen := make(map[string]bool, len(arqs))
	for i, arq := range arqs {
		switch {
		case arq.UUID == "":
			return nil, &Error{Group: -1, Err: ErrARQ, Want: "a UUID", Got: fmt.Sprintf("none at position %d", i)}
		case seen[arq.UUID]:
			return nil, &Error{Group: -1, ARQ: arq.UUID, Err: ErrARQ, Want: "each once", Got: "it twice"}
		case arq.DeviceProfileName != profile.Name:
			return nil, &Error{Group: -1, ARQ: arq.UUID, Err: ErrProfile,
				Want: strconv.Quote(profile.Name), Got: strconv.Quote(arq.DeviceProfileName)}
		case arq.Group < 0 || arq.Group >= len(counts):
			return nil, &Error{RequesterID: requestspec.RequesterID(arq.Group), Group: arq.Group, ARQ: arq.UUID, Err: ErrGroupIndex,
				Want: fmt.Sprintf("0 to %d", len(counts)-1), Got: strconv.Itoa(arq.Group)}
		}
		seen[arq.UUID] = true
		counts[arq.Group]++
	}
	return counts, nil
}
