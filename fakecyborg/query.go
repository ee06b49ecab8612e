package fakecyborg

import (
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// queryArgs reads the query and refuses arguments that the call does not know,
// as WSME does. The last of several values counts.
func queryArgs(r request, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, store.Refuse(store.Invalid, "Invalid query string: %v", err)
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, store.Refuse(store.Invalid, "Unknown argument: \"%s\"", name)
		}
	}
	return values, nil
}

// readBody reads a JSON body; argument is what upstream calls the handler's
// parameter.
func readBody(r request, argument string) ([]byte, error) {
	body, err := simhttp.ReadBody(r.Call.Request)
	if err != nil {
		return nil, store.Refuse(store.Invalid, "%v", err)
	}
	if len(strings.TrimSpace(string(body))) == 0 {
		return nil, missing(argument)
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.Header.Get("Content-Type") == "":
	case err != nil:
		return nil, store.Refuse(store.MediaType, "Unknown mimetype: %s", r.Header.Get("Content-Type"))
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

// checkUUID is the check of a typed argument.
func checkUUID(argument, value string) error {
	if store.IsUUID(value) {
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
