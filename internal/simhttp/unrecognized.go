package simhttp

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// unrecognized lists the query keys and the members of the body that the route does not
// read: "query limitt", "body [0].colour". It is empty for a request without a route.
func unrecognized(r *http.Request, match Match, body []byte) []string {
	if match.Route == nil {
		return nil
	}
	var list []string
	if r.URL.RawQuery != "" {
		list = unrecognizedQuery(r.URL.RawQuery, match.Route.Query)
	}
	if len(body) > 0 {
		known := match.body
		if match.Route.BodyOf != nil && !match.Route.BodyOf(r) {
			known = nil
		}
		list = append(list, known.unrecognizedBody(body)...)
	}
	return list
}

// unrecognizedQuery lists the keys that are not known, in the order in which they were sent.
func unrecognizedQuery(raw string, known []string) []string {
	var list []string
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, _, _ := strings.Cut(pair, "=")
		name = queryName(name)
		if !slices.Contains(known, "!"+name) && slices.ContainsFunc(known, func(k string) bool { return fits(k, name) }) {
			continue
		}
		if text := "query " + clipped(name); len(list) < maxUnrecognized && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// queryName is a name without escapes; a malformed escape is kept literally.
func queryName(name string) string {
	if plain, err := url.QueryUnescape(name); err == nil {
		return plain
	}
	return name
}

// fits compares a name with a known one, in which a trailing * matches any end.
func fits(known, name string) bool {
	if prefix, open := strings.CutSuffix(known, "*"); open {
		return strings.HasPrefix(name, prefix)
	}
	return known == name
}
