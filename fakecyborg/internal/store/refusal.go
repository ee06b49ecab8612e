package store

import (
	"fmt"
)

// RefusalKind is the class of a refusal: a status of the API, or a kind for which upstream lacks the status.
type RefusalKind int

// The kinds of refusals.
const (
	Invalid   RefusalKind = 400
	Forbidden RefusalKind = 403
	NotFound  RefusalKind = 404
	Version   RefusalKind = 406
	Conflict  RefusalKind = 409
	TooLarge  RefusalKind = 413
	MediaType RefusalKind = 415
	Internal  RefusalKind = 500

	Uncoded    RefusalKind = -Invalid
	BadState   RefusalKind = -Conflict
	NoReferent RefusalKind = -NotFound
)

// Status returns the status of the API. With quirks it is upstream's: 500 where upstream lacks a status.
func (k RefusalKind) Status(quirks bool) int {
	switch {
	case k > 0:
		return int(k)
	case quirks:
		return int(Internal)
	}
	return int(-k)
}

// Refusal is an error with Cyborg's text.
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

// BadPatch refuses a PATCH of requests.
func BadPatch(format string, args ...any) error {
	return Refuse(Invalid, "Couldn't apply patch. Reason: "+format, args...)
}
