package tables

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/sim"
)

// identifier finds UUIDs, with and without hyphens.
var identifier = regexp.MustCompile(`\b[0-9a-f]{8}(-?)[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\b`)

// Align returns the records of after with the identifiers of before. An identifier that only
// after has is replaced by an identifier that only before has, if both are in the same field of
// the same row, or if their rows differ only in identifiers.
func Align(before, after []sim.Record) ([]sim.Record, error) {
	a, b := identifiers(before), identifiers(after)
	p := pairs{names: make(map[string]string), taken: make(map[string]bool)}
	p.may = func(from, to string) bool { return b[from] > 0 && a[from] == 0 && a[to] > 0 && b[to] == 0 }
	if err := p.inRows(before, after); err != nil {
		return nil, err
	}
	renamed := p.rename(after)
	p.bySignature(before, renamed)
	renamed = p.rename(after)
	slices.SortStableFunc(renamed, func(x, y sim.Record) int {
		return slices.Compare([]string{x.Table, x.Key}, []string{y.Table, y.Key})
	})
	return renamed, nil
}

// identifiers counts the records that have each identifier.
func identifiers(records []sim.Record) map[string]int {
	count := make(map[string]int)
	for _, r := range records {
		for _, id := range identifier.FindAllString(r.Key+" "+string(r.Row), -1) {
			count[id]++
		}
	}
	return count
}

// pairs maps the identifiers of one state to the identifiers of another.
type pairs struct {
	may   func(from, to string) bool
	names map[string]string
	taken map[string]bool
}

func (p *pairs) add(from, to string) {
	if _, done := p.names[from]; !done && !p.taken[to] && len(from) == len(to) && p.may(from, to) {
		p.names[from], p.taken[to] = to, true
	}
}

func (p *pairs) rename(records []sim.Record) []sim.Record {
	name := func(id string) string {
		if to, ok := p.names[id]; ok {
			return to
		}
		return id
	}
	list := slices.Clone(records)
	for i, r := range list {
		list[i].Key = identifier.ReplaceAllStringFunc(r.Key, name)
		list[i].Row = json.RawMessage(identifier.ReplaceAllStringFunc(string(r.Row), name))
	}
	return list
}

// inRows pairs the identifiers in the same fields of the same rows. The identifiers of the rows
// themselves come first, because a reference may really differ.
func (p *pairs) inRows(before, after []sim.Record) error {
	found, err := Diff(before, after)
	if err != nil {
		return err
	}
	for _, own := range []bool{true, false} {
		for _, d := range found {
			if strings.HasSuffix(d.Path, ".uuid") != own {
				continue
			}
			from, to := identifier.FindAllString(d.After, -1), identifier.FindAllString(d.Before, -1)
			if len(from) == len(to) {
				for i := range from {
					p.add(from[i], to[i])
				}
			}
		}
	}
	return nil
}

// bySignature pairs identifiers in equal rows, in the order of the rows.
func (p *pairs) bySignature(before, after []sim.Record) {
	inA, inB := identifiers(before), identifiers(after)
	common := func(id string) bool { return inA[id] > 0 && inB[id] > 0 }
	a, b := signatures(before, common), signatures(after, common)
	for _, signature := range slices.Sorted(maps.Keys(b)) {
		for i, from := range b[signature] {
			if i < len(a[signature]) {
				p.add(from, a[signature][i])
			}
		}
	}
}

// signatures has the identifiers that are not common by the rows in which they stand, without times and other
// identifiers that are not common.
func signatures(records []sim.Record, common func(string) bool) map[string][]string {
	rows := make(map[string]string)
	var order []string
	for _, r := range records {
		text := r.Table + " " + r.Key + " " + aTime.ReplaceAllString(string(r.Row), "TIME") + "\n"
		ids := slices.DeleteFunc(identifier.FindAllString(text, -1), common)
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			if _, seen := rows[id]; !seen {
				order = append(order, id)
			}
			rows[id] += identifier.ReplaceAllStringFunc(text, func(found string) string {
				switch {
				case found == id:
					return "ID"
				case common(found):
					return found
				}
				return "OTHER"
			})
		}
	}
	list := make(map[string][]string)
	for _, id := range order {
		list[rows[id]] = append(list[rows[id]], id)
	}
	return list
}

// aTime finds times as records have them.
var aTime = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`)
