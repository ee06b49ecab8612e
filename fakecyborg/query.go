package fakecyborg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// errJSON is upstream's answer to every body that is not JSON.
var errJSON error = &store.Refusal{Kind: store.Invalid, Text: "Request is not in valid JSON format"}

// member is one field of a JSON object.
type member struct {
	key   string
	value json.RawMessage
}

// decodeObject reads a JSON object and keeps the order of its fields, which
// upstream's answers depend on. Of a key given twice the last value counts, in
// the first place, as in a Python dictionary.
func decodeObject(data []byte) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return nil, errJSON
	}
	var members []member
	index := make(map[string]int)
	for dec.More() {
		token, err := dec.Token()
		key, isKey := token.(string)
		if err != nil || !isKey {
			return nil, errJSON
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, errJSON
		}
		if at, again := index[key]; again {
			members[at].value = value
			continue
		}
		index[key] = len(members)
		members = append(members, member{key, value})
	}
	if _, err := dec.Token(); err != nil {
		return nil, errJSON
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errJSON
	}
	return members, nil
}

// jsonKind is the first character of a JSON value: { [ " t f n or a digit.
func jsonKind(raw json.RawMessage) byte {
	trimmed := bytes.TrimSpace(raw)
	switch {
	case len(trimmed) == 0:
		return 'n'
	case trimmed[0] == '-' || trimmed[0] >= '0' && trimmed[0] <= '9':
		return '0'
	}
	return trimmed[0]
}

// scalarText is a JSON string, number or boolean as the text that upstream
// keeps, where 1 is "1" and true is "True".
func scalarText(raw json.RawMessage) (string, error) {
	switch jsonKind(raw) {
	case '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return "", errJSON
		}
		return text, nil
	case '0':
		return string(bytes.TrimSpace(raw)), nil
	case 't':
		return "True", nil
	case 'f':
		return "False", nil
	}
	return "", fmt.Errorf("%s is not a text", bytes.TrimSpace(raw))
}
