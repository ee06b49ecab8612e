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
var indexedFilter = regexp.MustCompile(`^filters\[(\d{1,9})\]\.(field|value)$`)

// sortDirs are the directions of oslo.db, with the place of rows without a value. Every row has one.
var sortDirs = []string{"asc", "desc", "asc-nullsfirst", "asc-nullslast", "desc-nullsfirst", "desc-nullslast"}

// filter is one of the filters argument; nil for a half that is not given.
type filter struct{ field, value *string }

// listing says how a list is filtered, sorted and limited: the values of the filters by their
// fields, nil for a filter without a value. It is empty for a request without filters and
// arguments, which gets all rows in their order.
type listing map[string]*string

// listArguments reads the filters of a list, and the other arguments of the route.
func (s *Server) listArguments(c *simhttp.Call) (args arguments, l listing, err error) {
	if args, err = parseQuery(c); err != nil {
		return nil, l, err
	}
	if args.has("filters") {
		return nil, l, wrongType("filters", args.last("filters"), "ArrayType", "FilterType() takes no arguments")
	}
	filters := takeFilters(args)
	for _, f := range filters {
		if f.field != nil && !slices.Contains(filterNames, *f.field) {
			return nil, l, store.Refuse(store.Invalid, "Invalid input for field/attribute field. Value: '%s'. Value should be one of: %s", *f.field, strings.Join(filterNames, ", "))
		}
	}
	if err := args.check(c.Route.Query); err != nil {
		return nil, l, err
	}
	isGiven := func(name string) bool { return args.last(name) != "" }
	if len(filters) == 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(args)), isGiven) {
		return args, nil, nil
	}
	l = make(listing)
	for _, f := range filters {
		if f.field != nil {
			l[*f.field] = f.value
		}
	}
	return args, l, nil
}

// takeFilters reads the filters out of a query and leaves the rest.
func takeFilters(query arguments) []filter {
	fields, values := query["filters.field"], query["filters.value"]
	delete(query, "filters.field")
	delete(query, "filters.value")
	filters := make([]filter, max(len(fields), len(values)))
	for i := range fields {
		filters[i].field = &fields[i]
	}
	for i := range values {
		filters[i].value = &values[i]
	}
	indexed := make(map[int]filter)
	for name := range query {
		match := indexedFilter.FindStringSubmatch(name)
		if match == nil {
			continue
		}
		at, _ := strconv.Atoi(match[1]) // it has up to nine digits
		f, text := indexed[at], query.last(name)
		if match[2] == "field" {
			f.field = &text
		} else {
			f.value = &text
		}
		indexed[at] = f
		delete(query, name)
	}
	for _, at := range slices.Sorted(maps.Keys(indexed)) {
		filters = append(filters, indexed[at])
	}
	return filters
}

// ascending reports whether the oldest row comes first. A filter that upstream does not check ends in an exception of Python.
func (l listing) ascending() (bool, error) {
	switch dir, given := l["sort_dir"]; {
	case !given:
		return false, nil
	case dir == nil:
		return false, raised("'UnsetType' object has no attribute 'partition'")
	case *dir != "" && !slices.Contains(sortDirs, *dir):
		return false, raised("Unknown sort direction, must be one of: %s", strings.Join(sortDirs[2:], ", "))
	default:
		return strings.HasPrefix(*dir, "asc"), nil
	}
}

// most is how many of so many rows are listed.
func (l listing) most(rows int) (int, error) {
	limit, given := l["limit"]
	switch {
	case !given:
		return rows, nil
	case limit == nil:
		return 0, raised("int() argument must be a string, a bytes-like object or a real number, not 'UnsetType'")
	}
	n, err := store.ParseInteger(*limit)
	if err == nil && n < 0 {
		err = raised("the limit %d is negative", n)
	}
	return min(n, rows), err
}

// arrange sorts and cuts the rows: without a filter the oldest comes first, with one the
// newest. Text is the text of a row by which to sort, false for an unknown key.
func arrange[R any](l listing, rows []R, text func(row R, key string) (string, bool)) ([]R, error) {
	if l == nil {
		return rows, nil
	}
	type sorted struct {
		row     R
		key, id string
	}
	sortKey, list := "created_at", make([]sorted, 0, len(rows))
	if key := l["sort_key"]; key != nil && *key != "" {
		sortKey = *key
	}
	for _, row := range rows {
		key, ok := text(row, sortKey)
		if !ok {
			return nil, store.Refuse(store.Invalid, "The sort_key value \"%s\" is an invalid field for sorting", sortKey)
		}
		id, _ := text(row, "id")
		list = append(list, sorted{row, key, id})
	}
	ascending, err := l.ascending()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b sorted) int {
		order := cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id))
		if !ascending {
			return -order
		}
		return order
	})
	for i := range list {
		rows[i] = list[i].row
	}
	most, err := l.most(len(rows))
	if err != nil {
		return nil, err
	}
	return rows[:most], nil
}

// number is a text that sorts like the number.
func number[N int | int64](n N) string { return fmt.Sprintf("%020d", n) }
