package engine

import (
	"errors"
	"fmt"
)

// The decisions that a caller can make about a refused transition. Every error
// of this package is an *[Error] that matches exactly one of them.
var (
	// ErrNotFound: the subject of the request does not exist.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the request can never succeed as it is.
	ErrInvalid = errors.New("invalid request")
	// ErrUnknownClass: the request names a resource class that does not exist.
	ErrUnknownClass = errors.New("unknown resource class")
	// ErrUnknownTrait: the request names a trait that does not exist.
	ErrUnknownTrait = errors.New("unknown trait")
	// ErrCapacity: an inventory has no capacity.
	ErrCapacity = errors.New("invalid inventory capacity")
	// ErrConflict: the request conflicts with the present state.
	ErrConflict = errors.New("conflict")
	// ErrConcurrentUpdate: the generation sent is not the present one.
	ErrConcurrentUpdate = errors.New("concurrent update")
	// ErrInventoryInUse: an inventory to be removed has allocations.
	ErrInventoryInUse = errors.New("inventory in use")
	// ErrDuplicateName: another provider has the uuid or the name.
	ErrDuplicateName = errors.New("duplicate name")
	// ErrProviderInUse: a provider to be removed has allocations.
	ErrProviderInUse = errors.New("resource provider in use")
	// ErrParentInUse: a provider to be removed has children.
	ErrParentInUse = errors.New("resource provider has children")
	// ErrUnknownProvider: the request refers to a provider that does not
	// exist, though the provider is not its subject.
	ErrUnknownProvider = errors.New("unknown resource provider")
	// ErrTooMany: a candidate search or an explanation exceeded what one query may take.
	ErrTooMany = errors.New("search is too large")
)

// Error is a refused transition. Its text is the specific part of the message
// that Placement would give.
type Error struct {
	Kind error // one of the sentinels above
	Text string
	// Names lists what an ErrUnknownClass or ErrUnknownTrait is about.
	Names []string
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the kind, for errors.Is.
func (e *Error) Unwrap() error { return e.Kind }

func refuse(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Text: fmt.Sprintf(format, args...)}
}
