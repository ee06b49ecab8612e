package fakecyborg

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// filterNames are the fields that the filters argument of devices and
// deployables may name; most of them do nothing.
var filterNames = []string{
	"parent_uuid", "root_uuid", "board", "availability", "interface_type", "instance_uuid",
	"limit", "marker", "sort_key", "sort_dir", "name",
}

// indexedFilter is the second of the two forms of an argument: filters[0].field.
var indexedFilter = regexp.MustCompile(`^filters\[(\d{1,3})\]\.(field|value)$`)

// listing is how a list is to be cut and sorted.
type listing struct {
	filtered bool // any filter or argument was given
	limit    int  // 0: all
	sortKey  string
	sortDir  string
	name     *string
}

// listArguments reads the filters of a list, and the other arguments of the route.
func (s *Server) listArguments(c *simhttp.Call) (args arguments, l listing, err error) {
	if args, err = parseQuery(c); err != nil {
		return nil, l, err
	}
	if l, err = takeFilters(args); err != nil {
		return nil, l, err
	}
	l.filtered = l.filtered || slices.ContainsFunc(slices.Collect(maps.Keys(args)), func(name string) bool { return args.last(name) != "" })
	return args, l, args.check(c.Route.Query)
}

// takeFilters reads the filters out of a query and leaves the rest.
func takeFilters(query arguments) (listing, error) {
	fields, values := query["filters.field"], query["filters.value"]
	delete(query, "filters.field")
	delete(query, "filters.value")
	indexed := make(map[int]map[string]string)
	for name, list := range query {
		match := indexedFilter.FindStringSubmatch(name)
		if match == nil {
			continue
		}
		at, _ := strconv.Atoi(match[1]) // it has up to three digits
		if indexed[at] == nil {
			indexed[at] = make(map[string]string)
		}
		indexed[at][match[2]] = list[len(list)-1]
		delete(query, name)
	}
	for _, at := range slices.Sorted(maps.Keys(indexed)) {
		fields, values = append(fields, indexed[at]["field"]), append(values, indexed[at]["value"])
	}
	if len(fields) != len(values) {
		return listing{}, store.Refuse(store.Invalid, "Invalid input for field/attribute filters. %d fields and %d values", len(fields), len(values))
	}
	return listingOf(fields, values)
}

func listingOf(fields, values []string) (listing, error) {
	var l listing
	for i, field := range fields {
		if !slices.Contains(filterNames, field) {
			return l, store.Refuse(store.Invalid, "Invalid input for field/attribute field. Value: '%s'. Value should be one of: %s", field, strings.Join(filterNames, ", "))
		}
		l.filtered = true
		switch field {
		case "limit":
			limit, err := checkInt("limit", values[i])
			if err != nil {
				return l, err
			}
			if limit < 0 {
				return l, store.Refuse(store.Invalid, "Limit must be positive")
			}
			l.limit = limit
		case "sort_key":
			l.sortKey = values[i]
		case "sort_dir":
			if values[i] != "asc" && values[i] != "desc" {
				return l, store.Refuse(store.Invalid, "Invalid sort direction: %s. Acceptable values are 'asc' or 'desc'", values[i])
			}
			l.sortDir = values[i]
		case "name":
			l.name = &values[i]
		}
	}
	return l, nil
}

// arrange sorts and cuts the rows: without a filter the oldest comes first, with one the
// newest. Text is the text of a row by which to sort, false for an unknown key.
func arrange[R any](l listing, rows []R, text func(row R, key string) (string, bool)) ([]R, error) {
	if !l.filtered {
		return rows, nil
	}
	type sorted struct {
		row     R
		key, id string
	}
	sortKey, list := cmp.Or(l.sortKey, "created_at"), make([]sorted, 0, len(rows))
	for _, row := range rows {
		key, ok := text(row, sortKey)
		if !ok {
			return nil, store.Refuse(store.Invalid, "The sort_key value \"%s\" is an invalid field for sorting", sortKey)
		}
		id, _ := text(row, "id")
		list = append(list, sorted{row, key, id})
	}
	slices.SortFunc(list, func(a, b sorted) int {
		order := cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id))
		if l.sortDir != "asc" {
			return -order
		}
		return order
	})
	for i := range list {
		rows[i] = list[i].row
	}
	if l.limit > 0 && l.limit < len(rows) {
		rows = rows[:l.limit]
	}
	return rows, nil
}

// number is a text that sorts like the number.
func number[N int | int64](n N) string { return fmt.Sprintf("%020d", n) }
