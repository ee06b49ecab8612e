package simcloud

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/verbatim"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// These states are written by hand, because Cyborg prevents them or repairs them at the
// next report.
func TestLeaksOfHandlesAndMediatedDevices(t *testing.T) {
	t.Parallel()
	bound := fakecyborg.ARQ{UUID: "arq", State: fakecyborg.StateBound, InstanceUUID: "vm", Hostname: "cn0", AttachHandleUUID: "handle"}
	failed := bound
	failed.State = fakecyborg.StateBindFailed
	handle := fakecyborg.AttachHandle{UUID: "handle", Hostname: "cn0", ProviderUUID: "rp", Type: driver.HandleMDEV, InUse: true, ARQ: "arq"}
	with := func(change func(*fakecyborg.AttachHandle)) fakecyborg.AttachHandle {
		h := handle
		change(&h)
		return h
	}
	mdev := hostMdev{"cn0", driver.Mdev{UUID: "handle", Parent: "0000:af:00.0", Type: "nvidia-222"}}
	const what = "mediated device handle (nvidia-222 on 0000:af:00.0) of host cn0 "
	tests := []struct {
		name   string
		arq    fakecyborg.ARQ
		handle fakecyborg.AttachHandle
		mdevs  []hostMdev
		want   []Leak
	}{
		{"all well", bound, handle, []hostMdev{mdev}, nil},
		{"free handle", bound, with(func(h *fakecyborg.AttachHandle) { h.InUse, h.ARQ = false, "" }), nil, nil},
		{"in use by no request", bound, with(func(h *fakecyborg.AttachHandle) { h.ARQ = "" }), nil,
			[]Leak{{LeakHandle, "handle", "attach handle handle of provider rp on host cn0 is in use by no accelerator request"}}},
		{"in use by an unknown request", bound, with(func(h *fakecyborg.AttachHandle) { h.ARQ = "gone" }), nil,
			[]Leak{{LeakHandle, "handle", "attach handle handle of provider rp on host cn0 is in use by ARQ gone, which does not hold it"}}},
		{"request holds another", bound, with(func(h *fakecyborg.AttachHandle) { h.UUID = "other" }), nil,
			[]Leak{{LeakHandle, "other", "attach handle other of provider rp on host cn0 is in use by ARQ arq, which does not hold it"}}},
		{"mediated device of no handle", bound, with(func(h *fakecyborg.AttachHandle) { h.UUID, h.InUse = "other", false }), []hostMdev{mdev},
			[]Leak{{LeakMdev, "handle", what + "belongs to no attach handle"}}},
		{"mediated device on another host", bound, with(func(h *fakecyborg.AttachHandle) { h.Hostname = "cn1" }), []hostMdev{mdev},
			[]Leak{{LeakMdev, "handle", what + "belongs to no attach handle"}}},
		{"mediated device of a free handle", bound, with(func(h *fakecyborg.AttachHandle) { h.InUse, h.ARQ = false, "" }), []hostMdev{mdev},
			[]Leak{{LeakMdev, "handle", what + "belongs to attach handle handle, which is not in use"}}},
		{"mediated device of a failed bind", failed, handle, []hostMdev{mdev},
			[]Leak{{LeakMdev, "handle", what + "belongs to ARQ arq (BindFailed, device profile ), which is not Bound"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &snapshot{
				handles: []fakecyborg.AttachHandle{tt.handle}, handle: map[string]fakecyborg.AttachHandle{tt.handle.UUID: tt.handle},
				arq: map[string]fakecyborg.ARQ{tt.arq.UUID: tt.arq}, mdevs: tt.mdevs,
			}
			s.checkHandles()
			s.checkMdevs()
			if diff := cmp.Diff(tt.want, s.leaks); diff != "" {
				t.Errorf("leaks (-want +got):\n%s", diff)
			}
		})
	}
}

// unreadable is a tree without any readable directory.
type unreadable struct{ driver.Tree }

func (unreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrPermission}
}

func TestAnUnreadableHostIsALeak(t *testing.T) {
	t.Parallel()
	m := &machine{host: Host{Name: "cn0"}, verbatim: verbatim.New(nil), tree: unreadable{}}
	if _, err := m.mdevs(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got error %v", err)
	}
	s := &snapshot{}
	s.readMdevs(m)
	if len(s.leaks) != 1 || s.leaks[0].Kind != LeakHost || s.leaks[0].Subject != "cn0" {
		t.Errorf("leaks: %+v", s.leaks)
	}
}

func TestDomainsAreParsedLikeLibvirt(t *testing.T) {
	t.Parallel()
	text := `<?xml version="1.0" encoding="UTF-8"?>
<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0"><!-- c --><devices>
  <hostdev mode="subsystem" type="pci" managed="yes"><driver name="vfio"/><source><address domain="0x0000" bus="0x3b" slot="0x00" function="0x1"/></source><address type="pci" bus="0x05"/></hostdev>
  <hostdev type="pci"><source><address bus="59" slot="010"/></source></hostdev>
  <hostdev type="mdev" model="vfio-pci"><source><address uuid="51E314CB-59EE-4896-8B40-54953EE00227"/></source></hostdev>
  <hostdev type="usb"><source><address bus="0x3b"/></source></hostdev>
  <interface type="hostdev"><source><address type="pci" bus="0x77"/></source></interface>
</devices></domain>`
	got, err := readDomain(text)
	if err != nil {
		t.Fatal(err)
	}
	want := map[driver.PCIAddress]bool{{Bus: 0x3b, Function: 1}: true, {Bus: 0x3b, Device: 8}: true, {Bus: 0x77}: true}
	if diff := cmp.Diff(want, got.pci); diff != "" {
		t.Errorf("PCI devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"51e314cb-59ee-4896-8b40-54953ee00227": true}, got.mdevs); diff != "" {
		t.Errorf("mediated devices (-want +got):\n%s", diff)
	}
	if _, err := readDomain("<domain>"); err == nil {
		t.Error("a domain without an end was read")
	}
}
