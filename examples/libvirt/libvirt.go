package libvirt

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
)

// Hypervisor manages the guests of hosts by virsh. It implements [spawn.MdevRemover]: as Nova 34 it defines the mediated devices of
// guests, so that libvirt creates them again when the host starts.
type Hypervisor struct {
	// URI returns the connection of a host, such as qemu+ssh://cn0/system.
	URI func(host string) string
	// ShutdownTimeout is how long a guest may take to power off; zero means a minute, as Nova waits.
	ShutdownTimeout time.Duration
	// Command is the program; empty means virsh.
	Command string
}

var _ spawn.MdevRemover = Hypervisor{}

// Host returns the hypervisor of an agent that runs on its only host.
func Host() Hypervisor {
	return Hypervisor{URI: func(string) string { return "qemu:///system" }}
}

// virsh runs a command of virsh on the host of an instance, with a document on its standard input.
func (h Hypervisor) virsh(ctx context.Context, i spawn.Instance, document []byte, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, cmp.Or(h.Command, "virsh"), append([]string{"--quiet", "--connect", h.URI(i.Host)}, args...)...)
	var refusal bytes.Buffer
	command.Stdin, command.Stderr = bytes.NewReader(document), &refusal
	command.Env = append(command.Environ(), "LC_ALL=C")
	answer, err := command.Output()
	if err != nil {
		err = fmt.Errorf("virsh %s of instance %s on host %s: %w: %s", args[0], i.UUID, i.Host, err, bytes.TrimSpace(refusal.Bytes()))
		if strings.Contains(refusal.String(), "failed to get domain") {
			return nil, errors.Join(err, spawn.ErrNoGuest)
		}
		return nil, err
	}
	return answer, nil
}

// Domain implements [spawn.Hypervisor].
func (h Hypervisor) Domain(ctx context.Context, i spawn.Instance) (domain []byte, running bool, err error) {
	if domain, err = h.virsh(ctx, i, nil, "dumpxml", "--inactive", "--security-info", i.UUID); err != nil {
		return nil, false, err
	}
	running, err = h.runs(ctx, i)
	return domain, running, err
}

// runs reports whether a guest is not off. A paused one is not.
func (h Hypervisor) runs(ctx context.Context, i spawn.Instance) (bool, error) {
	state, err := h.virsh(ctx, i, nil, "domstate", i.UUID)
	return strings.TrimSpace(string(state)) != "shut off", err
}

// Define implements [spawn.Hypervisor].
func (h Hypervisor) Define(ctx context.Context, i spawn.Instance, domain []byte) error {
	_, err := h.virsh(ctx, i, domain, "define", "/dev/stdin")
	return err
}

// Start implements [spawn.Hypervisor].
func (h Hypervisor) Start(ctx context.Context, i spawn.Instance) error {
	_, err := h.virsh(ctx, i, nil, "start", i.UUID)
	return err
}

// Shutdown implements [spawn.Hypervisor].
func (h Hypervisor) Shutdown(ctx context.Context, i spawn.Instance) error {
	limit := cmp.Or(h.ShutdownTimeout, time.Minute)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the guest has not powered off within %s", limit))
	defer cancel()
	if _, err := h.virsh(ctx, i, nil, "shutdown", i.UUID); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if running, err := h.runs(ctx, i); err != nil || !running {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return context.Cause(ctx)
}

// Destroy implements [spawn.Hypervisor].
func (h Hypervisor) Destroy(ctx context.Context, i spawn.Instance) error {
	_, err := h.virsh(ctx, i, nil, "destroy", i.UUID)
	if err == nil {
		return nil
	}
	running, unknown := h.runs(ctx, i)
	if errors.Is(unknown, spawn.ErrNoGuest) || unknown == nil && !running {
		return nil
	}
	return err
}

// Undefine implements [spawn.Hypervisor].
func (h Hypervisor) Undefine(ctx context.Context, i spawn.Instance) error {
	if _, err := h.virsh(ctx, i, nil, "undefine", "--managed-save", "--nvram", i.UUID); !errors.Is(err, spawn.ErrNoGuest) {
		return err
	}
	return nil
}

// CreateMdev implements [spawn.MdevCreator]. A device that was defined before is started: libvirt refuses to define it again.
func (h Hypervisor) CreateMdev(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	device, err := domainxml.NodeDeviceOf(spawn.HandleOf(arq), "")
	if err != nil {
		return err
	}
	active, err := h.hasMdev(ctx, i, device)
	if err != nil || active {
		return err
	}
	defined, err := h.hasMdev(ctx, i, device, "--inactive")
	if err != nil {
		return err
	}
	for _, command := range domainxml.LifetimeAutostart.Virsh() {
		argument := device.Name
		if command == "nodedev-define" {
			argument = "/dev/stdin"
			if defined {
				continue
			}
		}
		if _, err := h.virsh(ctx, i, device.XML(), command, argument); err != nil {
			return err
		}
	}
	return nil
}

// RemoveMdev implements [spawn.MdevRemover]. A device that was destroyed is inactive if it has a definition.
func (h Hypervisor) RemoveMdev(ctx context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	device, err := domainxml.NodeDeviceOf(spawn.HandleOf(arq), "")
	if err != nil {
		return err
	}
	if active, err := h.hasMdev(ctx, i, device); err != nil {
		return err
	} else if active {
		if _, err := h.virsh(ctx, i, nil, "nodedev-destroy", device.Name); err != nil {
			return err
		}
	}
	defined, err := h.hasMdev(ctx, i, device, "--inactive")
	if err == nil && defined {
		_, err = h.virsh(ctx, i, nil, "nodedev-undefine", device.Name)
	}
	return err
}

// hasMdev reports whether libvirt lists a mediated device: one that is active, or with --inactive one that is only defined.
func (h Hypervisor) hasMdev(ctx context.Context, i spawn.Instance, device domainxml.NodeDevice, listed ...string) (bool, error) {
	list, err := h.virsh(ctx, i, nil, append([]string{"nodedev-list", "--cap", "mdev"}, listed...)...)
	return slices.Contains(strings.Fields(string(list)), device.Name), err
}
