package nvidia

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/driver"
)

// CreateMdev makes a mediated device on a card that is configured for its type, by
// writing the uuid to the type's create file. A device that is there already, of the
// same type on the same card, is no error: after a restart of the host the agent asks
// for every bound device again. Errors wrap driver.ErrHandle for an impossible name,
// ErrConfig for a card that is not configured for the type, fs.ErrNotExist for a card
// or type that is gone, fs.ErrExist for a uuid in use elsewhere.
func (d *Driver) CreateMdev(ctx context.Context, m driver.Mdev) error {
	err := m.Validate()
	if err == nil {
		err = d.configured(m)
	}
	if err == nil {
		err = driver.MakeMdev(ctx, d.tree, m)
	}
	if err != nil {
		return fmt.Errorf("nvidia: create mdev %s: %w", m.UUID, err)
	}
	return nil
}

// RemoveMdev removes a mediated device by writing 1 to its remove file. A device that is
// not there is no error. The configuration is not asked: it may have changed since the
// device was made. Errors wrap driver.ErrHandle for an impossible name.
func (d *Driver) RemoveMdev(ctx context.Context, m driver.Mdev) error {
	if err := driver.DropMdev(ctx, d.tree, m); err != nil {
		return fmt.Errorf("nvidia: remove mdev %s: %w", m.UUID, err)
	}
	return nil
}

// configured says whether the device may be made here.
func (d *Driver) configured(m driver.Mdev) error {
	address, err := driver.ParsePCIAddress(m.Parent)
	if err != nil || d.types[address] != m.Type {
		return fmt.Errorf("%w: card %s is not configured for vGPU type %s", ErrConfig, m.Parent, m.Type)
	}
	return nil
}
