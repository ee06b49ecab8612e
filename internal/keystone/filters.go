package keystone

import (
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// filters are the members of a body by which a list is filtered: exactly by the member's name, or
// with a comparator, as in name__contains. Other keys of the query mean nothing.
type filters []string

// comparators are the endings of keys. With an i in front, letters match in either case.
var comparators = map[string]func(text, part string) bool{
	"contains": strings.Contains, "startswith": strings.HasPrefix, "endswith": strings.HasSuffix,
}

// booleans are the members that are true or false, which have no parts to compare.
var booleans = []string{"enabled", "is_domain"}

// keys are the keys of a query that filter.
func (f filters) keys() (keys []string) {
	for _, name := range f {
		keys = append(keys, name)
		if slices.Contains(booleans, name) {
			continue
		}
		for comparator := range comparators {
			keys = append(keys, name+"__"+comparator, name+"__i"+comparator)
		}
	}
	slices.Sort(keys)
	return keys
}

// apply returns the items that pass all filters of a query. The key compares whole members.
func (f filters) apply(c *simhttp.Call, key collation.Key, items []map[string]any) []map[string]any {
	query := c.URL.Query()
	return slices.DeleteFunc(items, func(item map[string]any) bool {
		for filter, values := range query {
			name, comparator, _ := strings.Cut(filter, "__")
			if slices.Contains(f, name) && slices.ContainsFunc(values, func(want string) bool { return !passes(key, item[name], comparator, want) }) {
				return true
			}
		}
		return false
	})
}

// passes compares a member with the value of a filter. A comparator that does not exist lets all pass.
func passes(key collation.Key, have any, comparator, want string) bool {
	switch have := have.(type) {
	case bool:
		return comparator != "" || have == !isFalse(want)
	case string:
		if comparator == "" {
			return key.Equal(have, want)
		}
		compare := comparators[comparator]
		if plain, folded := strings.CutPrefix(comparator, "i"); folded {
			compare, have, want = comparators[plain], strings.ToLower(have), strings.ToLower(want)
		}
		return compare == nil || compare(have, want)
	}
	return false // null equals nothing
}

// isFalse reads a boolean of a query: what does not say no is true.
func isFalse(text string) bool {
	return slices.Contains([]string{"0", "f", "false", "off", "n", "no"}, strings.ToLower(text))
}
