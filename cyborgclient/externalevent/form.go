package externalevent

import "slices"

// Form is a generation of the event that tells of resolved accelerator requests.
type Form string

// Forms of the event. Nova took the shipped one only; the other two are those of the
// specifications of Train and Ussuri, for a Cyborg that still sends them.
const (
	// FormShipped: [ARQBound] for each request, with the status completed or failed.
	FormShipped Form = "shipped"
	// FormTrain: [ARQResolved] for each request, with the status ok or failed.
	FormTrain Form = "train"
	// FormUssuri: [ARQsBound], with the name of a device profile as the tag: all
	// requests that the instance has of that profile are resolved, and with the
	// status failed not all of them well.
	FormUssuri Form = "ussuri"
)

// The names of the event in the forms of the specifications.
const (
	ARQResolved = "arq_resolved"
	ARQsBound   = "accelerator-requests-bound"
)

// StatusOK is what [ARQResolved] has for completed. It is not [Status.Known]: Nova's
// schema does not have it.
const StatusOK Status = "ok"

// Known reports whether f is one of the three.
func (f Form) Known() bool { return f == FormShipped || f == FormTrain || f == FormUssuri }

// WithForms lets the registry, and its handler, take events of the given forms beside
// the shipped one, which they always take. Without it, as with Nova, the handler
// refuses a request with such an event, and Deliver drops it.
func WithForms(forms ...Form) RegistryOption {
	return func(r *Registry) { r.forms = append(r.forms, forms...) }
}

// formOf is the form that brought a name; empty for names of other events.
func formOf(name string) Form {
	switch name {
	case ARQBound:
		return FormShipped
	case ARQResolved:
		return FormTrain
	case ARQsBound:
		return FormUssuri
	}
	return ""
}

// takes reports whether the registry takes an event of this name that is of one of
// the forms of the specifications.
func (r *Registry) takes(name string) bool {
	form := formOf(name)
	return (form == FormTrain || form == FormUssuri) && slices.Contains(r.forms, form)
}
