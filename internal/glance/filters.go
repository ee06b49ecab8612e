package glance

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// filters are the conditions of a list. An image must match all.
type filters []func(imageRow, map[string]any) bool

// all reports whether an image passes all filters.
func (f filters) all(i imageRow) bool {
	body := i.body()
	return !slices.ContainsFunc(f, func(passes func(imageRow, map[string]any) bool) bool { return !passes(i, body) })
}

// newFilters reads a query. Every key that is not one of the list's own is a field or a property.
func newFilters(query url.Values) (f filters, err error) {
	if !query.Has("os_hidden") {
		f = append(f, func(i imageRow, _ map[string]any) bool { return !i.Hidden })
	}
	for key, values := range query {
		next, err := newFilter(key, values)
		if err != nil {
			return nil, err
		}
		if next != nil {
			f = append(f, next)
		}
	}
	return f, nil
}

func newFilter(key string, values []string) (func(imageRow, map[string]any) bool, error) {
	value := values[0]
	switch key {
	case "limit", "marker", "sort", "sort_key", "sort_dir", "member_status":
		return nil, nil
	case "tag":
		return func(i imageRow, _ map[string]any) bool {
			return !slices.ContainsFunc(values, func(tag string) bool { return !slices.Contains(i.Tags, tag) })
		}, nil
	case "created_at", "updated_at":
		return timeFilter(key, value)
	case "size_min", "size_max":
		return sizeFilter(key, value)
	case "changes-since":
		return nil, simhttp.Refuse(http.StatusBadRequest, `The "changes-since" filter is no longer available on v2.`)
	case "visibility":
		if value == "all" {
			return nil, nil
		}
		if !slices.Contains(visibilities(), value) {
			return nil, simhttp.Refuse(http.StatusBadRequest, "Invalid visibility value: %s", value)
		}
	case "os_hidden", "protected":
		want, err := strconv.ParseBool(strings.ToLower(value))
		if err != nil {
			return nil, simhttp.Refuse(http.StatusBadRequest, "Invalid value '%s' for '%s' filter. Valid values are case insensitive 'true' or 'false'.", value, key)
		}
		value = fmt.Sprint(want)
	}
	return func(_ imageRow, body map[string]any) bool {
		have, there := body[key]
		return there && oneOf(fmt.Sprint(have), value)
	}, nil
}

// oneOf compares with a value, or with the list of "in:a,b".
func oneOf(have, want string) bool {
	list, ok := strings.CutPrefix(want, "in:")
	if !ok {
		return have == want
	}
	return slices.Contains(strings.Split(list, ","), have)
}

// comparisons are the operators of times, by the signs of a comparison that they accept.
var comparisons = map[string][]int{
	"eq": {0}, "neq": {-1, 1}, "gt": {1}, "gte": {0, 1}, "lt": {-1}, "lte": {-1, 0},
}

// timeFilter reads a filter such as created_at=gte:2026-01-01T00:00:00Z. Without an operator the times are equal.
func timeFilter(key, value string) (func(imageRow, map[string]any) bool, error) {
	operator, text := "eq", value
	limit, err := parseTime(value)
	if left, right, found := strings.Cut(value, ":"); err != nil && found {
		operator, text = left, right
		limit, err = parseTime(text)
	}
	signs, known := comparisons[operator]
	switch {
	case err != nil:
		return nil, simhttp.Refuse(http.StatusBadRequest, "Bad \"%s\" query filter format. Use ISO 8601 DateTime notation.", key)
	case !known:
		return nil, simhttp.Refuse(http.StatusBadRequest, "Unable to filter on a unknown operator.")
	}
	return func(i imageRow, _ map[string]any) bool {
		at := i.CreatedAt
		if key == "updated_at" {
			at = i.UpdatedAt
		}
		return slices.Contains(signs, at.Truncate(time.Second).Compare(limit)) // clients see whole seconds
	}, nil
}

func parseTime(text string) (at time.Time, err error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02"} {
		if at, err = time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return at, err
}

func sizeFilter(key, value string) (func(imageRow, map[string]any) bool, error) {
	limit, err := strconv.Atoi(value)
	if err != nil || limit < 0 {
		return nil, simhttp.Refuse(http.StatusBadRequest, "Cannot convert image %s \"%s\" to an integer.", key, value)
	}
	sign := 1
	if key == "size_max" {
		sign = -1
	}
	return func(i imageRow, _ map[string]any) bool {
		return i.Status == statusActive && cmp.Compare(i.Size, limit) != -sign
	}, nil
}
