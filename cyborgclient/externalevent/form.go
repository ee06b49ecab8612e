package externalevent

import "slices"

// Form is a generation of the event for resolved accelerator requests.
type Form string

// Forms of the event. Nova only implemented the shipped one; the other two are those
// of the specifications of Train and Ussuri, for a Cyborg that sends them.
const (
	// FormShipped: [ARQBound] for each request, with the status completed or failed.
	FormShipped Form = "shipped"
	// FormTrain: [ARQResolved] for each request, with the status ok or failed.
	FormTrain Form = "train"
	// FormUssuri: [ARQsBound], with the name of a device profile as the tag: all
	// requests of the instance for that profile are resolved; the status failed
	// means that at least one of them failed.
	FormUssuri Form = "ussuri"
)

// Known reports whether f is one of the three.
func (f Form) Known() bool { return f == FormShipped || f == FormTrain || f == FormUssuri }

// WithForms makes the registry and its handler accept events of the given forms
// besides the shipped one, which they always accept. Without it, as with Nova, the
// handler refuses a request with such an event, and Deliver drops it.
func WithForms(forms ...Form) RegistryOption {
	return func(r *Registry) { r.forms = append(r.forms, forms...) }
}

// formOf returns the form that an event name belongs to, or "" for other events.
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

// accepts reports whether the registry accepts an event name of the Train or Ussuri
// form.
func (r *Registry) accepts(name string) bool {
	form := formOf(name)
	return (form == FormTrain || form == FormUssuri) && slices.Contains(r.forms, form)
}
