package placementsim

import (
	"bufio"
	_ "embed"
	"strings"
)

//go:embed traits.txt
var traitsFile string

// StandardTraits lists the standard traits of the newest release of os-traits that is known, sorted. An older
// [Release] of Placement has fewer.
func StandardTraits() []string {
	all := releases()
	return standardTraits(all[len(all)-1].osTraits)
}

// standardTraits lists the traits of a release of os-traits that the table of releases names, sorted.
func standardTraits(osTraits string) (names []string) {
	known := map[string]bool{"": true}
	for _, r := range releases() {
		known[r.osTraits] = true
		if r.osTraits == osTraits {
			break
		}
	}
	for lines := bufio.NewScanner(strings.NewReader(traitsFile)); lines.Scan(); {
		name, since, _ := strings.Cut(lines.Text(), " ")
		if !strings.HasPrefix(name, "#") && known[since] {
			names = append(names, name)
		}
	}
	return names
}
