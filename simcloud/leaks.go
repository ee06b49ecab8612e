package simcloud

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud/internal/leaks"
)

// The kinds of leaks.
const (
	LeakARQ        = leaks.KindARQ        // an accelerator request that belongs to no guest
	LeakHandle     = leaks.KindHandle     // an attach handle in use by no accelerator request
	LeakAllocation = leaks.KindAllocation // an allocation that belongs to no guest
	LeakMdev       = leaks.KindMdev       // a mediated device, or its definition in libvirt, that belongs to no guest
	LeakVGPU       = leaks.KindVGPU       // a virtual function with a vGPU type that belongs to no guest
	LeakGuest      = leaks.KindGuest      // a guest that lacks something
	LeakHost       = leaks.KindHost       // a host, an external Placement or a Nova that cannot be read
)

// Leak is an inconsistency between the services.
type Leak struct {
	// Kind is one of the Leak constants.
	Kind string `json:"kind"`
	// Subject is the identifier of what leaked.
	Subject string `json:"subject"`
	// Text is one sentence that names both sides.
	Text string `json:"text"`
	// ARQ is the UUID of the accelerator request that the leak is about, if there is one.
	ARQ string `json:"arq,omitempty"`
}

// Leaks compares the state of all services; it is empty when
//
//   - each accelerator request belongs to a guest, and a bound one that has a project belongs to
//     the project of the guest's allocation,
//   - each attach handle in use belongs to the request that holds it,
//   - each allocation on a compute root or on a provider of Cyborg's belongs to a guest, and
//     so does each mediated device, each definition of one ([Cloud.DefineMdev]) and each virtual function with a vGPU type,
//   - each guest's requests are Bound, on the guest's host and to a handle of that host and of their
//     provider, with an allocation of their class there, and their devices are in the guest's domain XML (except TEST_PCI handles,
//     which have no device) and are no other request's, and their mediated devices and vGPUs exist on the host,
//   - each registered guest's other allocations in the tree of a host are on its own host,
//   - each unit of a provider of Cyborg's that is allocated to a guest has a request, and the guest
//     has no more requests there; device memory has one on its host,
//   - no guest's domain XML has a device of Cyborg's that is not the guest's,
//   - the last event that Nova got about a guest's bound request says that it is bound for
//     the guest.
//
// It reads one service after the other, so requests in progress may appear as leaks. The order is
// the order of the services' own lists, the same in every run. The guests of a stopped host also
// appear until it is started, if the host has lost their mediated devices or shows their requests
// as unknown. Guests whose mediated devices nova-compute has yet to create
// ([fakecyborg.MdevsByNova]) appear as well.
//
// With Model.GuestsFrom the guests are the servers of a real Nova, too; if it does not answer, that is the only
// leak.
func (c *Cloud) Leaks() []Leak {
	leaks, err := c.leaksBeside(context.Background(), c.model.GuestsFrom)
	if err != nil {
		return []Leak{{Kind: LeakHost, Subject: "nova", Text: fmt.Sprintf("cannot list the servers of Nova: %v", err)}}
	}
	return leaks
}

// CheckNoLeaks fails the test if [Cloud.Leaks] finds anything. The text has a sentence for
// each leak, then the summary of the cloud.
func (c *Cloud) CheckNoLeaks(t sim.TB) {
	t.Helper()
	leaks := c.Leaks()
	if len(leaks) == 0 {
		return
	}
	text := "simcloud: " + plural.Count(len(leaks), "leak") + ":\n"
	for _, l := range leaks {
		text += "  " + l.Text + "\n"
	}
	t.Errorf("%s", text+c.Summary())
}

// maxShown is the number of requests in a summary.
const maxShown = 15

// Summary is what a failed check shows of a cloud: what is in use as a tree, then the last
// requests.
func (c *Cloud) Summary() string {
	text := leaks.Usage(c.snapshot(nil).State) + "last requests:\n"
	requests := c.Requests()
	for _, r := range requests[max(0, len(requests)-maxShown):] {
		path := r.Path
		if r.Query != "" {
			path += "?" + r.Query
		}
		text += fmt.Sprintf("  %s %s: %d", r.Method, path, r.Status)
		if r.Fault != "" {
			text += " (fault: " + r.Fault + ")"
		}
		text += "\n"
	}
	return text
}
