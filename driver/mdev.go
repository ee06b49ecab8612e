package driver

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/driver/internal/file"
)

// keyParent is the field of an MDEV handle whose parent is no PCI device.
const keyParent = "parent"

// Mdev is one mediated device: its uuid, which is the uuid of the attach handle, the
// device it is made on, and the type it is made of.
type Mdev struct {
	UUID string `json:"uuid"`
	// Parent is a PCI address such as "0000:84:00.0", or the name of another device.
	Parent string `json:"parent"`
	// Type is a name below mdev_supported_types, such as "nvidia-35".
	Type string `json:"type"`
}

// Validate checks that the three names can stand in paths of sysfs: a UUID in its
// canonical form, and a parent and a type that are single file names. The error wraps
// ErrHandle.
func (m Mdev) Validate() error {
	if uuid.Validate(m.UUID) != nil || len(m.UUID) != len(uuid.UUID{})*2+4 {
		return fmt.Errorf("%w: mdev uuid %q", ErrHandle, m.UUID)
	}
	if !file.IsName(m.Parent) {
		return fmt.Errorf("%w: mdev %s: parent %q", ErrHandle, m.UUID, m.Parent)
	}
	if !file.IsName(m.Type) {
		return fmt.Errorf("%w: mdev %s: type %q", ErrHandle, m.UUID, m.Type)
	}
	return nil
}

// Mdev returns the mediated device that an MDEV handle stands for once it has a uuid.
// The parent is the handle's PCI address, or its field "parent" when that is no PCI
// device. The error wraps ErrHandle.
func (h AttachHandle) Mdev(id string) (Mdev, error) {
	if h.Type != HandleMDEV {
		return Mdev{}, fmt.Errorf("%w: type %q is not %s", ErrHandle, h.Type, HandleMDEV)
	}
	asked := h.Info["asked_type"]
	if asked == "" {
		return Mdev{}, fmt.Errorf("%w: MDEV without asked_type", ErrHandle)
	}
	if parent := h.Info[keyParent]; parent != "" {
		return Mdev{UUID: id, Parent: parent, Type: asked}, nil
	}
	address, err := PCIAddressOf(h.Info)
	if err != nil {
		return Mdev{}, fmt.Errorf("%w: MDEV: %w", ErrHandle, err)
	}
	return Mdev{UUID: id, Parent: address.String(), Type: asked}, nil
}
