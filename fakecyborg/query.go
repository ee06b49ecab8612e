package fakecyborg

import (
	"encoding/json"
	"errors"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// arguments are the arguments in the query of a call. The last value of a repeated argument wins, as in WSME.
type arguments url.Values

func (a arguments) has(name string) bool { return len(a[name]) > 0 }

// last is the value of an argument, "" without one.
func (a arguments) last(name string) string {
	if values := a[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// matches applies an argument as a filter. An empty one filters nothing, as upstream.
func (s *Server) matches(a arguments, name, value string) bool {
	want := a.last(name)
	return want == "" || s.equal(want, value)
}

// arguments reads the query and refuses, as WSME does, a value of the wrong type, and then arguments that are neither
// the route's nor among others.
func (s *Server) arguments(c *simhttp.Call, others ...string) (arguments, error) {
	args, err := parseQuery(c)
	if err != nil {
		return nil, err
	}
	known := slices.Concat(c.Route.Query, others)
	for _, name := range known {
		if err := s.checkType(c, name, args[name]); err != nil {
			return nil, err
		}
	}
	return args, args.check(known)
}

// checkType refuses the values of an argument that are not of its type. Only a text can be given twice.
func (s *Server) checkType(c *simhttp.Call, name string, values []string) error {
	if len(values) == 0 {
		return nil
	}
	value, list := values[0], len(values) > 1
	if list {
		value = "[" + schema.ReprList(values) + "]"
	}
	switch {
	case name == "instance" && c.Method == http.MethodGet: // in every release
		return checkUUID(name, value)
	case name == "instance":
		return s.checkUUID(name, value)
	case name == "deployable_id" && list:
		return wrongType(name, value, "integer", "int() argument must be a string, a bytes-like object or a real number, not 'list'")
	case name == "deployable_id":
		if _, err := store.ParseInteger(value); err != nil {
			return wrongType(name, value, "integer", err.Error())
		}
	}
	return nil
}

func parseQuery(c *simhttp.Call) (arguments, error) {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return nil, store.Refuse(store.Invalid, "Invalid query string: %v", err)
	}
	return arguments(values), nil
}

// check refuses arguments that are not known.
func (a arguments) check(known []string) error {
	unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(a)), func(name string) bool { return slices.Contains(known, name) })
	if len(unknown) > 0 {
		return store.Refuse(store.Invalid, "Unknown argument: \"%s\"", strings.Join(unknown, ", "))
	}
	return nil
}

// equal compares texts that upstream compares in SQL.
func (s *Server) equal(a, b string) bool { return collation.Of(s.cfg.Collation).Equal(a, b) }

// readBody reads a body of a type that upstream treats as JSON, after the query; argument is what upstream calls
// the handler's parameter. Without a body it is the text that follows the collection in the path.
func (s *Server) readBody(c *simhttp.Call, argument string) (json.RawMessage, error) {
	if _, err := s.arguments(c); err != nil {
		return nil, err
	}
	body, err := simhttp.ReadBody(c.Request)
	switch {
	case errors.Is(err, simhttp.ErrBodyTooLarge):
		return nil, store.Refuse(store.TooLarge, "%v", err)
	case err != nil:
		return nil, store.Refuse(store.Invalid, "%v", err)
	}
	if id := c.PathValue("id"); len(body) == 0 && id != "" && argument != "program_info" {
		return jsonString(id), nil
	}
	if len(body) == 0 {
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
	if !utf8.Valid(body) {
		clearVersion(c.W.Header())
		return nil, &routingError{http.StatusBadRequest, ""}
	}
	if _, err := schema.Decode(body); err != nil {
		return nil, store.Refuse(store.Invalid, "Request is not in valid JSON format")
	}
	return body, nil
}

func missing(argument string) error {
	return store.Refuse(store.Invalid, "Missing argument: \"%s\"", argument)
}

// wrongType refuses an argument whose text is not of its type.
func wrongType(argument, value, kind, cause string) error {
	return badArgument(argument, value, "unable to convert to "+kind+". Error: "+cause)
}

// badArgument refuses the value of an argument.
func badArgument(argument, value, cause string) error {
	return store.Refuse(store.Invalid, "Invalid input for field/attribute %s. Value: '%s'. %s", argument, value, cause)
}

// checkUUID is the check of an argument that is a UUID.
func checkUUID(argument, value string) error {
	if uuids.Like(value) {
		return nil
	}
	return wrongType(argument, value, "uuid", "Expected a uuid but received "+value+".")
}
