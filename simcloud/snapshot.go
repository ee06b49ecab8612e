package simcloud

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/simcloud/internal/client"
	"github.com/gocyborg/gocyborg/simcloud/internal/leaks"
)

// snapshot is the state of all services, read once. The leak check and the summary of a failed test use it.
type snapshot struct{ leaks.State }

// snapshot reads Nova's part, and then the other services in parallel. What cannot be read is
// reported as a leak. The servers of a real Nova are guests, too; nil without a real Nova.
func (c *Cloud) snapshot(servers []client.Server) *snapshot {
	s := &snapshot{leaks.State{Guests: c.compute.Guests(), Servers: servers, Roots: make(map[string][]string, len(c.machines)), HasProject: c.identity.HasProject, MdevCreation: c.model.Cyborg.MdevCreation}}
	if c.external == nil { // whose consumers are not read
		s.ProjectOf = c.Placement.ConsumerProject
	}
	var err error
	var reads sync.WaitGroup
	reads.Go(func() { s.ARQs = c.Cyborg.ARQs() })
	reads.Go(func() { s.Handles = c.Cyborg.AttachHandles() })
	reads.Go(func() { s.Deployables = c.Cyborg.Deployables() })
	s.Providers, s.Allocations, err = c.placementState()
	reads.Wait()
	if err != nil {
		s.unread("placement", "Placement cannot be read: %v", err)
	}
	namedRoot, stored := c.namedRoots(s.Providers), make(map[string]bool)
	for _, d := range s.Deployables {
		stored[d.Hostname] = true
	}
	for _, m := range c.machines {
		name := m.host.Name
		if stored[m.host.Fallback] {
			name = m.host.Fallback
		}
		for _, root := range []string{m.provider, namedRoot(m)} {
			if root != "" {
				s.Roots[root] = []string{m.host.Name, m.host.Fallback}
			}
		}
		s.readMdevs(m, name)
		for _, mdev := range c.hardware.defined(m) {
			s.Defined = append(s.Defined, leaks.Mdev{Host: name, Mdev: mdev})
		}
		s.readVGPUs(m, name)
	}
	s.Events = c.compute.Events()
	return s
}

// readMdevs reads the mediated devices of a host, which Cyborg knows by the name.
func (s *snapshot) readMdevs(m *machine, name string) {
	mdevs, err := m.mdevs()
	if err != nil {
		s.unread(m.host.Name, "host %s: its mediated devices cannot be read: %v", m.host.Name, err)
	}
	for _, mdev := range mdevs {
		s.Mdevs = append(s.Mdevs, leaks.Mdev{Host: name, Mdev: mdev, Older: m.older[mdev.UUID]})
	}
}

func (s *snapshot) readVGPUs(m *machine, name string) {
	if m.tree == nil {
		return
	}
	types, err := sysfs.VGPUs(m.tree)
	if err != nil {
		s.unread(m.host.Name, "host %s: its vGPUs cannot be read: %v", m.host.Name, err)
	}
	for _, function := range slices.SortedFunc(maps.Keys(types), driver.PCIAddress.Compare) {
		vgpu := driver.VGPU{Function: function, Type: types[function]}
		s.VGPUs = append(s.VGPUs, leaks.VGPU{Host: name, VGPU: vgpu, Older: m.older[function.String()]})
	}
}

func (s *snapshot) unread(subject, format string, args ...any) {
	s.Unread = append(s.Unread, leaks.Leak{Kind: LeakHost, Subject: subject, Text: fmt.Sprintf(format, args...)})
}
