package store

import (
	"fmt"
	"strings"
)

// RefusalKind is the class of a refusal; the API turns it into a status.
type RefusalKind int

// The kinds of refusals with the statuses of the API.
const (
	Invalid    RefusalKind = iota // 400
	NotFound                      // 404
	Forbidden                     // 403
	Version                       // 406
	MediaType                     // 415
	Conflict                      // 409
	Uncoded                       // 400, or upstream's 500 for an exception without a code
	BadState                      // 409, or upstream's 500
	NoReferent                    // 404, or upstream's 500
	Internal                      // 500
)

// Refusal is an error in Cyborg's own words.
type Refusal struct {
	Kind RefusalKind
	Text string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// Refuse returns a [Refusal].
func Refuse(kind RefusalKind, format string, args ...any) error {
	return &Refusal{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// Denied is the refusal of a policy rule.
func Denied(rule string) error {
	return Refuse(Forbidden, "Access was denied to the following resource: %s", rule)
}

// PythonList writes names as Python prints a list of strings.
func PythonList(names ...string) string { return "['" + strings.Join(names, "', '") + "']" }

// BadPatch refuses a PATCH of requests.
func BadPatch(format string, args ...any) error {
	return Refuse(Invalid, "Couldn't apply patch. Reason: "+format, args...)
}
