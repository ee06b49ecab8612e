package statuspage

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/requestspec"
)

// The keys of a question to Placement.
const (
	flavorKey  = "flavor"
	profileKey = "profile"
	queryKey   = "query"
)

// explanation is the data of the section that explains why hosts are no candidates.
type explanation struct {
	list
	Flavors, Profiles []choice
	More              string // of the query, as typed
	Query             string // the whole; empty if nothing is asked
	Reasons           []string
	Hosts, Candidates int
	Problem           string
}

// choice is an option of a form.
type choice struct {
	Name     string
	Selected bool
}

func choices(names []string, selected string) []choice {
	list := make([]choice, 0, len(names))
	for _, name := range names {
		list = append(list, choice{name, name == selected})
	}
	return list
}

func (p *Page) explain(a address) any {
	flavors, profiles := p.cloud.Flavors(), p.cloud.DeviceProfiles()
	data := explanation{More: a.get(queryKey)}
	var names []string
	for _, f := range flavors {
		names = append(names, f.Name)
	}
	data.Flavors = choices(names, a.get(flavorKey))
	names = nil
	for _, profile := range profiles {
		names = append(names, profile.Name)
	}
	data.Profiles = choices(names, a.get(profileKey))
	var err error
	data.Query, err = question(flavors, profiles, a.get(flavorKey), a.get(profileKey), data.More)
	data.list = a.read(Explain, func(q Query) (shown, matching int) {
		if err == nil && data.Query != "" {
			var answer Explanation
			answer, err = p.cloud.Explain(data.Query, q)
			data.Reasons, data.Hosts, data.Candidates, matching = answer.Reasons, answer.Hosts, answer.Candidates, answer.Matching
		}
		return len(data.Reasons), matching
	})
	data.Others = slices.DeleteFunc(data.Others, func(pair [2]string) bool {
		return slices.Contains([]string{flavorKey, profileKey, queryKey}, pair[0])
	})
	if err != nil {
		data.Problem = err.Error()
	}
	return data
}

// question is the query that Nova would send for a flavor with a device profile, and what else it is to have. Any of the
// three may be empty; without a device profile the flavor's own counts.
func question(flavors []requestspec.Flavor, profiles []requestspec.Profile, flavor, profile, more string) (string, error) {
	if flavor == "" && profile == "" {
		return more, nil
	}
	var wanted requestspec.Flavor
	if at := slices.IndexFunc(flavors, func(f requestspec.Flavor) bool { return f.Name == flavor }); at >= 0 {
		wanted = flavors[at]
	}
	if profile == "" {
		profile = wanted.ExtraSpecs[requestspec.DeviceProfileKey]
	} else {
		specs := map[string]string{requestspec.DeviceProfileKey: profile}
		for key, value := range wanted.ExtraSpecs {
			if key != requestspec.DeviceProfileKey {
				specs[key] = value
			}
		}
		wanted.ExtraSpecs = specs
	}
	var named *requestspec.Profile
	if at := slices.IndexFunc(profiles, func(p requestspec.Profile) bool { return p.Name == profile }); at >= 0 {
		named = &profiles[at]
	}
	spec, err := requestspec.New(wanted, named, requestspec.Options{})
	if err != nil {
		return "", err
	}
	query := spec.Query()
	if more = strings.Trim(more, "&? "); more != "" {
		if _, err := url.ParseQuery(more); err != nil {
			return "", err
		}
		query += "&" + more
	}
	return query, nil
}
