package placementsim

import (
	"bufio"
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed traits.txt
var traitsFile string

// oldestTraits is the release of the names of the file that have none behind them, newestTraits the last one in it.
const (
	oldestTraits = "2.9.0"
	newestTraits = "3.9.0"
)

// StandardTraits lists the standard traits of the newest release of os-traits that is known, sorted. Those of
// [Config] may be of an older one.
func StandardTraits() []string {
	names, _ := standardTraits(newestTraits)
	return names
}

// standardTraits lists the traits of a release. The error matches [ErrConfig].
func standardTraits(release string) (names []string, err error) {
	releases := []string{oldestTraits}
	since := make(map[string]string)
	for lines := bufio.NewScanner(strings.NewReader(traitsFile)); lines.Scan(); {
		name, from, later := strings.Cut(lines.Text(), " ")
		if strings.HasPrefix(name, "#") {
			continue
		}
		if !later {
			from = oldestTraits
		} else if !slices.Contains(releases, from) {
			releases = append(releases, from)
		}
		names, since[name] = append(names, name), from
	}
	slices.Sort(releases)
	last := slices.Index(releases, release)
	if last < 0 {
		return nil, fmt.Errorf("%w: unknown release %q of os-traits (known: %s)", ErrConfig, release, strings.Join(releases, ", "))
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Index(releases, since[name]) > last }), nil
}
