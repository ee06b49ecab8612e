package simcloud

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// StopHost shuts a host down: its mediated devices vanish and its agent is silent. The
// guests stay defined. The error matches [ErrHost] or [ErrDirectory].
func (c *Cloud) StopHost(host string) error {
	m := c.machine(host)
	switch {
	case m == nil:
		return fmt.Errorf("%w: %q", ErrHost, host)
	case m.dir != nil:
		return fmt.Errorf("%w: %q", ErrDirectory, host)
	}
	if err := c.Cyborg.StopAgent(host); err != nil {
		return fmt.Errorf("simcloud: stop host %s: %w", host, err)
	}
	c.reboot(m)
	return nil
}

func (c *Cloud) reboot(m *machine) {
	m.reboot()
	c.hardware.commit(m)
}

// reboot is what a restart does to the hardware. A directory is not ours to restart.
func (m *machine) reboot() {
	m.verbatim.Reboot()
	if tree, ok := m.tree.(*sysfs.Memory); ok {
		tree.Reboot()
	}
}

// StartHost starts the agent of a stopped host, and returns when it has created the mediated
// devices of the bound requests again and has reported. The errors are those of
// StopHost, and those of the report.
func (c *Cloud) StartHost(ctx context.Context, host string) error {
	if c.machine(host) == nil {
		return fmt.Errorf("%w: %q", ErrHost, host)
	}
	if err := c.Cyborg.StartAgent(ctx, host); err != nil {
		return fmt.Errorf("simcloud: start host %s: %w", host, err)
	}
	return nil
}

// RebootHost stops and starts a host.
func (c *Cloud) RebootHost(ctx context.Context, host string) error {
	if err := c.StopHost(host); err != nil {
		return err
	}
	return c.StartHost(ctx, host)
}
