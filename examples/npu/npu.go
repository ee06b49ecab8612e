// Package npu is the driver of an invented accelerator, written outside of gocyborg with its public
// names only. The card 1d55:1000 is given to guests whole, or in slices, which are mediated devices.
package npu

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/gocyborg/gocyborg/driver"
)

// EntryPoint is the name of the driver in enabled_drivers.
const EntryPoint = "acme_npu_driver"

// Config is the section of the driver in the configuration of a host.
type Config struct {
	driver.Policy
	// Sliced are the PCI addresses of the cards that are given in slices.
	Sliced []string `json:"sliced,omitempty"`
}

// sliceType is the directory of the slices below mdev_supported_types.
const sliceType = "acme-slice"

// Driver finds the cards of one host.
type Driver struct {
	*driver.PCIDriver
	driver.MdevParents // makes and removes the slices
	host               string
	config             Config
	sliced             map[string]string
}

// Load makes the driver; it is a builtin.Load.
func Load(host string, section json.RawMessage, tree driver.Tree) (driver.Driver, error) {
	var config Config
	if section != nil {
		decoder := json.NewDecoder(bytes.NewReader(section))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&config); err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrConfig, err)
		}
	}
	return New(host, config, tree)
}

// New returns the driver for a host's tree. The error wraps driver.ErrConfig.
func New(host string, config Config, tree driver.Tree) (*Driver, error) {
	if tree == nil {
		return nil, fmt.Errorf("%w: the host has no hardware", driver.ErrConfig)
	}
	sliced := make(map[string]string)
	for _, text := range config.Sliced {
		address, err := driver.ParsePCIAddress(text)
		if err != nil {
			return nil, fmt.Errorf("%w: sliced: %w", driver.ErrConfig, err)
		}
		sliced[address.String()] = sliceType
	}
	d := &Driver{MdevParents: driver.NewMdevParents(tree, sliced), host: host, config: config, sliced: sliced}
	var err error
	d.PCIDriver, err = driver.NewPCIDriver(driver.PCISpec{
		Driver: "acme_npu", Host: host, Policy: config.Policy,
		Claims:        []driver.Claim{{Vendor: 0x1d55, Product: 0x1000, Why: "Acme NPU"}},
		KernelDrivers: func(driver.Unit) []string { return []string{"acme"} },
		Device:        device,
		Subject:       func(driver.Unit) driver.Subject { return subject("NPU") },
		Divide:        d.divide,
	}, tree)
	return d, err
}

func device(u driver.Unit) driver.Device {
	return driver.Device{
		Vendor: u.VendorID(), Model: "Acme NPU", Type: driver.TypeAICHIP,
		StdBoardInfo: fmt.Sprintf(`{"product_id": "%s"}`, u.ProductID()),
	}
}

// subject names the resource class and the trait.
func subject(kind string) driver.Subject {
	return driver.Subject{
		Type: driver.TypeAICHIP, Vendor: "acme", ProductID: "1000", Product: "NPU",
		ShippedClass: "CUSTOM_" + kind, Shipped: []string{driver.TraitOwnerCyborg, "CUSTOM_ACME_" + kind},
	}
}

// divide offers a card in slices, if it is configured so.
func (d *Driver) divide(scan *driver.PCIScan, u *driver.Unit) bool {
	if d.sliced[u.Address.String()] == "" {
		return false
	}
	card := device(*u)
	card.ControlPath = u.Address.ControlPath()
	capacity, err := d.Capacity(scan.View, card.ControlPath.Address())
	if err != nil {
		scan.Problem(u, err)
		return true
	}
	if len(capacity.Handles) == 0 {
		scan.LeaveOut(u, "no free slice")
		return true
	}
	class, traits, err := d.config.Names(subject("NPU_SLICE"))
	if err != nil {
		scan.Problem(u, err)
		return true
	}
	card.Deployables = []driver.Deployable{{
		Name: d.host + "_" + u.Address.String(), NumAccelerators: len(capacity.Handles), DriverName: "acme_npu",
		Class: class, Traits: traits, AttachHandles: capacity.Handles,
	}}
	scan.Offer(u, card)
	return true
}
