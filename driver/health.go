package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver/internal/file"
)

// Health is the state of a PCI function as the kernel reports it. Members without a file in the
// tree are zero: without PCI Express there is no link, without AER no errors are counted. The
// link of a virtual function is its card's.
type Health struct {
	// PowerState is D0, D3hot and the like.
	PowerState string `json:"power_state,omitempty"`
	// LinkSpeed is such as "16.0 GT/s PCIe". It falls while a device is idle.
	LinkSpeed    string `json:"link_speed,omitempty"`
	MaxLinkSpeed string `json:"max_link_speed,omitempty"`
	// LinkWidth is the number of lanes.
	LinkWidth    int `json:"link_width,omitempty"`
	MaxLinkWidth int `json:"max_link_width,omitempty"`
	// Correctable, NonFatal and Fatal are the errors of Advanced Error Reporting since the host started.
	Correctable int `json:"aer_correctable,omitempty"`
	NonFatal    int `json:"aer_nonfatal,omitempty"`
	Fatal       int `json:"aer_fatal,omitempty"`
}

// maxErrors is the highest plausible count of errors.
const maxErrors = 1<<63 - 1

// ReadHealth reads the state of a function. The error joins a Problem for each file that cannot be
// read or understood; what could be read is returned.
func ReadHealth(view *View, address PCIAddress) (Health, error) {
	r := &healthReader{view: view, function: PCIFunction{Address: address}}
	width := func(name string) int { return r.count(name, r.text(name)) }
	link := "" // virtual functions do not have the state of theirs
	if _, err := view.Readlink(r.function.Dir() + "/physfn"); err == nil {
		link = "physfn/"
	}
	h := Health{
		PowerState: r.text("power_state"),
		LinkSpeed:  r.text(link + "current_link_speed"), MaxLinkSpeed: r.text(link + "max_link_speed"),
		LinkWidth: width(link + "current_link_width"), MaxLinkWidth: width(link + "max_link_width"),
		Correctable: r.errors("aer_dev_correctable", "TOTAL_ERR_COR"),
		NonFatal:    r.errors("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
		Fatal:       r.errors("aer_dev_fatal", "TOTAL_ERR_FATAL"),
	}
	return h, errors.Join(r.problems...)
}

// Troubles returns reasons to check a device before it is assigned to a guest. It is empty for a
// sound device. A link with fewer lanes than possible is a reason. A slower link is not, since
// idle devices save power.
func (h Health) Troubles() (list []string) {
	if h.PowerState == "error" {
		list = append(list, "its power state is error")
	}
	if h.LinkWidth < h.MaxLinkWidth {
		list = append(list, fmt.Sprintf("its link has %d of %d lanes", h.LinkWidth, h.MaxLinkWidth))
	}
	if h.NonFatal+h.Fatal > 0 {
		list = append(list, fmt.Sprintf("the kernel counted %d fatal and %d other uncorrected errors of it", h.Fatal, h.NonFatal))
	}
	return list
}

// healthReader reads optional files of a function.
type healthReader struct {
	view     *View
	function PCIFunction
	problems []error
}

func (r *healthReader) text(name string) string {
	text, err := r.view.ReadText(r.function.Dir() + "/" + name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.problem(name, err)
	}
	return text
}

func (r *healthReader) problem(name string, err error) {
	r.problems = append(r.problems, Problem{Address: r.function.Address.String(), File: r.function.Dir() + "/" + name, Err: file.Cause(err)})
}

// count reads a count; the width of a link that is down is not known.
func (r *healthReader) count(name, text string) int {
	if text == "" || text == "Unknown" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		r.problem(name, garbled(text))
	}
	return int(min(n, maxErrors))
}

// errors is the total in a file of one line for each kind of error.
func (r *healthReader) errors(name, total string) int {
	for line := range strings.Lines(r.text(name)) {
		if kind, count, found := strings.Cut(strings.TrimSpace(line), " "); found && kind == total {
			return r.count(name, count)
		}
	}
	return 0
}
