package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

// hypervisor has the guests of an embedded cloud.
type hypervisor struct {
	*guests.Hypervisor
	cloud *simcloud.Cloud
	fail  step
}

// Start implements spawn.Hypervisor.
func (h *hypervisor) Start(ctx context.Context, i spawn.Instance) error {
	if h.fail == failStart {
		return errors.New("the guest does not start")
	}
	return h.Hypervisor.Start(ctx, i)
}

// servedBy returns the control API of a cloud of clouds.yaml, if cysim serve runs it at the address in CYSIM_URL: its leak
// check compares the guests with the accelerators. This program starts no guest in another cloud.
func servedBy(name string) *sim.Control {
	address := strings.TrimSuffix(os.Getenv("CYSIM_URL"), "/")
	auth, _, _, err := clouds.Parse(clouds.WithCloudName(name))
	if err != nil || address == "" || !strings.HasPrefix(auth.IdentityEndpoint, address+"/") {
		return nil
	}
	return &sim.Control{URL: address}
}

// reboot reboots the host of an instance and resumes its guest. It returns what happened,
// a line each.
func (h *hypervisor) reboot(ctx context.Context, flow *spawn.Flow, i spawn.Instance) ([]string, error) {
	operations, err := flow.Operations()
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
	h.PowerOff(i.Host)
	during, err := h.mdevs(i.Host)
	if err != nil {
		return nil, err
	}
	if err := h.cloud.StartHost(ctx, i.Host); err != nil {
		return nil, err
	}
	h.PowerOn(i.Host)
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
