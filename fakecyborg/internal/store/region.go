package store

import (
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

// content is where the content of a region comes from.
type content string

// The contents of regions. Each restart of the host leads to reset, and each failed write to spoiled.
const (
	// reported is what the driver reports.
	reported content = ""
	// written is the image of the last write. If a driver that reads the region reports another function, the content is reported.
	written content = "written"
	// spoiled is unknown, and the region has no function. If the driver reports another function than before, the content is reported.
	spoiled content = "spoiled"
	// reset is unknown until the driver reports a function. Then the content is reported.
	reset content = "reset"
)

// Region is what is known about the content of a deployable.
type Region struct {
	Content content `json:"content,omitempty"`
	// Image was written last, if the content is written.
	Image Image `json:"image,omitzero"`
	// Trait is the trait of its function, empty if it names none and the driver has not reported one yet.
	Trait string `json:"trait,omitempty"`
	// Reported are the function traits in the last report of the driver, or in the last one before the region was spoiled.
	Reported []string `json:"reported_functions,omitempty"`
	// ReadBack is set once the driver has reported something else after a write: it reads the region. Content that is reported says nothing
	// about that.
	ReadBack bool `json:"read_back,omitempty"`
	// Epoch grows when the region loses its content.
	Epoch int `json:"epoch,omitempty"`
}

// unknown reports whether the region may have any content.
func (r Region) unknown() bool { return r.Content == spoiled || r.Content == reset }

// has reports whether the region has an image with a property.
func (r Region) has(by selector, value string) bool {
	return r.Image.ID != "" && r.Image.Get(by) == value
}

// lost returns the region after it has lost its content.
func (r Region) lost(to content) Region {
	return Region{Content: to, Reported: r.Reported, ReadBack: r.ReadBack && to == spoiled, Epoch: r.Epoch + 1}
}

// shows reports whether a report with these functions shows the content.
func (r Region) shows(functions []string) bool {
	switch r.Content {
	case written:
		return r.ReadBack
	case spoiled:
		return len(functions) > 0 && !slices.Equal(functions, r.Reported)
	}
	return true
}

// observe returns the region after a report with these functions. With the defects of upstream the image stays.
func (r Region) observe(functions []string, quirks bool) Region {
	switch {
	case r.Content == spoiled:
		return r
	case r.Content == written && !slices.Equal(functions, r.Reported):
		r.ReadBack = true
	}
	r.Reported = functions
	if quirks || r.Content != written || !r.ReadBack {
		return r
	}
	if r.Trait == "" && len(functions) > 0 {
		r.Trait = functions[0] // an image that does not name its function
	}
	if r.Trait != "" && !slices.Contains(functions, r.Trait) { // an image may have several functions
		return Region{Reported: functions, Epoch: r.Epoch}
	}
	return r
}

// accept returns the region after Placement has accepted a report with these functions. Until then the functions of an unknown region satisfy no
// bind.
func (r Region) accept(functions []string) Region {
	if r.unknown() && len(functions) > 0 && r.shows(functions) {
		return Region{Reported: functions, Epoch: r.Epoch}
	}
	return r
}

// write returns the region after an image was written, whose function has the trait. Shown are the function traits in the report of the driver
// after the write, if there is one. It returns false if a driver that reads the region reports other functions.
func (r Region) write(image Image, trait string, shown []string) (_ Region, functions []string, ok bool) {
	next := Region{Content: written, Image: image, Trait: trait, Reported: r.Reported, ReadBack: r.ReadBack, Epoch: r.Epoch}
	if len(shown) == 0 || !r.ReadBack && slices.Equal(shown, r.Reported) {
		return next, traitList(trait), true
	}
	at := 0
	if function := image.Get(ByFunctionID); trait != "" {
		at = slices.IndexFunc(shown, func(trait string) bool { return driver.NamesFunction(trait, function) })
	}
	if at < 0 {
		return r, nil, false
	}
	next.Trait, next.Reported, next.ReadBack = shown[at], shown, true
	return next, shown, true
}
