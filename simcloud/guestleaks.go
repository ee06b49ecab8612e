package simcloud

import (
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
)

// judgeGuest checks that a living guest has what it should have, and nothing else.
func (w *view) judgeGuest(g sim.Guest) {
	devices, err := readDomain(g.Domain)
	if err != nil {
		w.leak(LeakGuest, g.UUID, "guest %s: its domain XML cannot be read: %v", g.UUID, err)
		return
	}
	bound := make(map[amount]int) // requests by what they are for
	for _, a := range w.arqs {
		if owner, ok := w.owner(a); ok && owner.UUID == g.UUID {
			bound[w.unit(a)]++
			w.judgeGuestARQ(g, a, devices)
		}
	}
	for _, a := range w.allocations[g.UUID] {
		requests := bound[amount{a.provider, a.class, 1}]
		if w.classes[a.provider][a.class] && a.used > requests {
			w.leak(LeakGuest, g.UUID, "guest %s has allocated %s:%d on provider %s, but has %d accelerator requests there",
				g.UUID, a.class, a.used, w.providerText(a.provider), requests)
		}
	}
	w.judgeForeignDevices(g, devices)
}

// judgeGuestARQ checks one accelerator request of a guest.
func (w *view) judgeGuestARQ(g sim.Guest, a fakecyborg.ARQ, devices domainDevices) {
	switch {
	case a.State != fakecyborg.StateBound || a.AttachHandleUUID == "":
		w.leak(LeakGuest, g.UUID, "guest %s has %s, which is not Bound to an attach handle", g.UUID, w.arqText(a))
		return
	case g.Host != "" && a.Hostname != g.Host:
		w.leak(LeakGuest, g.UUID, "guest %s runs on host %s, but its %s is on host %s", g.UUID, g.Host, w.arqText(a), a.Hostname)
	}
	if h := w.byHandle[a.AttachHandleUUID]; !h.InUse || h.ARQ != a.UUID {
		w.leak(LeakGuest, g.UUID, "guest %s has %s, but its attach handle %s is not in use by it", g.UUID, w.arqText(a), a.AttachHandleUUID)
	}
	if !w.hasAllocation(g.UUID, a.DeviceRPUUID) {
		w.leak(LeakGuest, g.UUID, "guest %s has %s on provider %s, but no allocation there", g.UUID, w.arqText(a), w.providerText(a.DeviceRPUUID))
	}
	if a.AttachHandleType == driver.HandleMDEV && !w.hasMdev(a) {
		w.leak(LeakGuest, g.UUID, "guest %s has %s, but host %s has no mediated device %s", g.UUID, w.arqText(a), a.Hostname, a.AttachHandleUUID)
	}
	if a.AttachHandleType == driver.HandleTestPCI {
		return // stands for no device
	}
	if !devices.has(a.AttachHandleType, a.AttachHandleUUID, a.AttachHandleInfo) {
		w.leak(LeakGuest, g.UUID, "guest %s has %s, but its %s is not in the guest's domain XML", g.UUID, w.arqText(a), w.handleText(a))
	}
}

func (w *view) hasAllocation(consumer, provider string) bool {
	for _, a := range w.allocations[consumer] {
		if a.provider == provider {
			return true
		}
	}
	return false
}

func (w *view) hasMdev(a fakecyborg.ARQ) bool {
	for _, m := range w.mdevs {
		if m.UUID == a.AttachHandleUUID && m.host == a.Hostname {
			return true
		}
	}
	return false
}

// judgeForeignDevices finds devices of Cyborg's that a guest uses without holding them.
// Others in its domain are its own affair.
func (w *view) judgeForeignDevices(g sim.Guest, devices domainDevices) {
	if g.Host == "" {
		return // no telling which machine the addresses are of
	}
	for _, h := range w.handles {
		if h.Hostname != g.Host || h.Type == driver.HandleTestPCI || !devices.has(h.Type, h.UUID, h.Info) {
			continue
		}
		if owner, ok := w.owner(w.arqByUUID[h.ARQ]); !ok || owner.UUID != g.UUID {
			w.leak(LeakGuest, g.UUID, "guest %s has %s %s of provider %s in its domain XML, but no accelerator request for it",
				g.UUID, h.Type, deviceText(h.Type, h.UUID, h.Info), w.providerText(h.ProviderUUID))
		}
	}
}
