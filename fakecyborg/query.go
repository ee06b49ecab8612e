package fakecyborg

import (
	"errors"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// queryArgs reads the query and refuses, as WSME does, arguments that are neither the route's
// nor among others, which it ignores.
func queryArgs(c *simhttp.Call, others ...string) (url.Values, error) {
	values, err := parseQuery(c)
	if err != nil {
		return nil, err
	}
	return values, checkArgs(values, slices.Concat(c.Route.Query, others))
}

func parseQuery(c *simhttp.Call) (url.Values, error) {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return nil, store.Refuse(store.Invalid, "Invalid query string: %v", err)
	}
	return values, nil
}

func checkArgs(values url.Values, known []string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, name) {
			return store.Refuse(store.Invalid, "Unknown argument: \"%s\"", name)
		}
	}
	return nil
}

// matches applies the filter of an argument, if it is given.
func (s *Server) matches(query url.Values, name, value string) bool {
	return !query.Has(name) || s.equal(query.Get(name), value)
}

// equal compares texts that upstream compares in SQL.
func (s *Server) equal(a, b string) bool { return collation.Of(s.cfg.Collation).Equal(a, b) }

// readBody reads a body of a type that upstream takes for JSON; argument is what upstream calls
// the handler's parameter.
func readBody(c *simhttp.Call, argument string) ([]byte, error) {
	body, err := simhttp.ReadBody(c.Request)
	switch {
	case errors.Is(err, simhttp.ErrBodyTooLarge):
		return nil, store.Refuse(store.TooLarge, "%v", err)
	case err != nil:
		return nil, store.Refuse(store.Invalid, "%v", err)
	}
	if len(strings.TrimSpace(string(body))) == 0 {
		return nil, missing(argument)
	}
	header := c.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(header)
	switch {
	case header == "":
	case err != nil:
		return nil, store.Refuse(store.MediaType, "Unknown mimetype: %s", header)
	case kind == "application/x-www-form-urlencoded":
		name, _, _ := strings.Cut(string(body), "=")
		return nil, store.Refuse(store.Invalid, "Unknown argument: \"%s\"", name)
	case !slices.Contains([]string{"application/json", "application/javascript", "text/javascript", "application/x-javascript"}, kind):
		return nil, store.Refuse(store.MediaType, "Unknown mimetype: %s", kind)
	}
	return body, nil
}

func missing(argument string) error {
	return store.Refuse(store.Invalid, "Missing argument: \"%s\"", argument)
}

// checkUUID is the check of an argument that is a UUID.
func checkUUID(argument, value string) error {
	if uuids.Like(value) {
		return nil
	}
	return store.Refuse(store.Invalid, "Invalid input for field/attribute %s. Value: '%s'. unable to convert to uuid. Error: Expected a uuid but received %s.",
		argument, value, value)
}

func checkInt(argument, value string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil {
		return 0, store.Refuse(store.Invalid, "Invalid input for field/attribute %s. Value: '%s'. unable to convert to integer. Error: invalid literal for int() with base 10: '%s'",
			argument, value, value)
	}
	return n, nil
}
