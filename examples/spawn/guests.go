package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// hypervisor has the guests of an embedded cloud. A real one calls libvirt's domain API.
type hypervisor struct {
	cloud   *simcloud.Cloud
	fail    step
	running string // UUID of the guest that runs
}

// hooks start and destroy the guest of a spawn.
func (h *hypervisor) hooks() spawn.Hooks {
	return spawn.Hooks{
		Start: func(ctx context.Context, r *spawn.Result) error {
			if h.fail == failStart {
				return errors.New("the guest does not start")
			}
			h.running = r.Instance
			return h.Define(ctx, spawn.Instance{UUID: r.Instance, Host: r.Host}, r.Domain)
		},
		Destroy: func(ctx context.Context, r *spawn.Result) error {
			h.running = ""
			return h.Undefine(ctx, spawn.Instance{UUID: r.Instance})
		},
	}
}

// Domain implements spawn.Hypervisor.
func (h *hypervisor) Domain(_ context.Context, i spawn.Instance) (domain []byte, running bool, err error) {
	for _, guest := range h.cloud.Guests() {
		if guest.UUID == i.UUID {
			return []byte(guest.Domain), h.running == i.UUID, nil
		}
	}
	return nil, false, spawn.ErrNoGuest
}

// Define implements spawn.Hypervisor.
func (h *hypervisor) Define(_ context.Context, i spawn.Instance, domain []byte) error {
	return h.cloud.DefineGuest(sim.Guest{UUID: i.UUID, Host: i.Host, Domain: string(domain)})
}

// Start implements spawn.Hypervisor. As libvirt it refuses a guest whose mediated device is
// not there.
func (h *hypervisor) Start(ctx context.Context, i spawn.Instance) error {
	domain, _, err := h.Domain(ctx, i)
	if err != nil {
		return err
	}
	devices, err := domainxml.Read(domain)
	if err != nil {
		return err
	}
	mdevs, err := h.mdevs(i.Host)
	if err != nil {
		return err
	}
	for _, d := range devices {
		if d.MDEV != "" && !slices.Contains(mdevs, d.MDEV) {
			return fmt.Errorf("mediated device %s does not exist", d.MDEV)
		}
	}
	h.running = i.UUID
	return nil
}

// Shutdown implements spawn.Hypervisor.
func (h *hypervisor) Shutdown(context.Context, spawn.Instance) error { h.running = ""; return nil }

// Destroy implements spawn.Hypervisor.
func (h *hypervisor) Destroy(context.Context, spawn.Instance) error { h.running = ""; return nil }

// Undefine implements spawn.Hypervisor.
func (h *hypervisor) Undefine(_ context.Context, i spawn.Instance) error {
	h.cloud.RemoveGuest(i.UUID)
	return nil
}

// registered returns hooks that register a new instance with the leak check of cysim serve,
// if the cloud of a flow is the one whose address is in CYSIM_URL. A real cloud has no such
// check, and this program starts no guest there.
func registered(flow *spawn.Flow) spawn.Hooks {
	address := strings.TrimSuffix(os.Getenv("CYSIM_URL"), "/")
	if address == "" || !strings.HasPrefix(flow.Cyborg().Service().Endpoint, address+"/") {
		return spawn.Hooks{}
	}
	cloud := sim.Control{URL: address}
	return spawn.Hooks{
		Start: func(ctx context.Context, r *spawn.Result) error {
			return cloud.DefineGuest(ctx, sim.Guest{UUID: r.Instance, Host: r.Host, Domain: string(r.Domain)})
		},
		Destroy: func(ctx context.Context, r *spawn.Result) error { return cloud.RemoveGuest(ctx, r.Instance) },
	}
}

// reboot reboots the host of an instance and resumes its guest. It returns what happened,
// a line each.
func (h *hypervisor) reboot(ctx context.Context, flow *spawn.Flow, i spawn.Instance) ([]string, error) {
	operations, err := flow.Operations(h)
	if err != nil {
		return nil, err
	}
	before, err := h.mdevs(i.Host)
	if err != nil {
		return nil, err
	}
	if err := h.cloud.StopHost(i.Host); err != nil {
		return nil, err
	}
	h.running = ""
	during, err := h.mdevs(i.Host)
	if err != nil {
		return nil, err
	}
	if err := h.cloud.StartHost(ctx, i.Host); err != nil {
		return nil, err
	}
	after, err := h.mdevs(i.Host)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	err = operations.ResumeAfterHostReboot(ctx, i)
	lines := []string{
		fmt.Sprintf("Host %s stops, its guest is off%s", i.Host, change("vanishes", before, during)),
		fmt.Sprintf("Host %s starts%s", i.Host, change("is created again by Cyborg's agent", after, during)),
	}
	for _, r := range requests(h.cloud) {
		if r.Started.After(began) {
			lines = append(lines, fmt.Sprintf("  %s  %s", requestText(r), statusText(r.Status)))
		}
	}
	if err != nil {
		return lines, err
	}
	domain, _, err := h.Domain(ctx, i)
	if err != nil {
		return lines, err
	}
	devices, err := domainxml.Read(domain)
	return append(lines, fmt.Sprintf("The guest starts again with %s", devices)), err
}

// mdevs lists the mediated devices of a host.
func (h *hypervisor) mdevs(host string) (uuids []string, err error) {
	list, err := h.cloud.Mdevs(host)
	for _, m := range list {
		uuids = append(uuids, m.UUID)
	}
	return uuids, err
}

// change describes the mediated devices that are in one list and not in another.
func change(what string, list, without []string) (text string) {
	for _, uuid := range list {
		if !slices.Contains(without, uuid) {
			text += fmt.Sprintf(", mediated device %s %s", uuid, what)
		}
	}
	return text
}
