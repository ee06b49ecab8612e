package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/strictjson"
)

// The time that the program has for a call.
const (
	callLimit    = 30 * time.Second
	programLimit = 600 * time.Second
)

// Driver calls a program.
type Driver struct{ config Config }

var (
	_ driver.Driver     = (*Driver)(nil)
	_ driver.MdevDriver = (*Driver)(nil)
	_ driver.Programmer = (*Driver)(nil)
)

// New returns the driver of a program. The tree is not read; it may be nil. The error wraps
// driver.ErrConfig.
func New(config Config, _ driver.Tree) (*Driver, error) {
	config.Name = cmp.Or(config.Name, "command")
	config.TraitShape = cmp.Or(config.TraitShape, driver.ShapeRockyAgent)
	if err := config.check(); err != nil {
		return nil, err
	}
	return &Driver{config: config}, nil
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return d.config.Name }

// host is what every verb is told.
type host struct {
	Host string `json:"host"`
}

// Discover calls the program. Devices of its answer that Cyborg could not store are problems. Errors
// wrap ErrNotLooked, or that of ctx.
func (d *Driver) Discover(ctx context.Context) (driver.Report, error) {
	answer, err := d.call(ctx, "discover", callLimit, host{d.config.Host})
	if err != nil {
		return driver.Report{}, err
	}
	devices, err := d.decode(answer)
	if err != nil {
		return driver.Report{}, fmt.Errorf("%s: discover: answer of %s: %w", d.Name(), d.config.Program, err)
	}
	var report driver.Report
	for _, device := range devices {
		for i := range device.Deployables {
			device.Deployables[i].DriverName = d.Name() // the agent finds the driver by it
		}
		if err := device.Validate(); err != nil {
			report.AddProblem(device.ControlPath.Address().String(), err)
			continue
		}
		report.Devices = append(report.Devices, device)
	}
	return report, nil
}

// decode reads the answer of discover in either form.
func (d *Driver) decode(answer []byte) (devices []driver.Device, err error) {
	if answer = bytes.TrimSpace(answer); len(answer) == 0 || answer[0] != '{' {
		return devices, strictjson.Decode(answer, &devices)
	}
	var wrapped struct {
		Rocky json.RawMessage `json:"rocky"`
	}
	if err := strictjson.Decode(answer, &wrapped); err != nil {
		return nil, err
	}
	if wrapped.Rocky == nil {
		return nil, errors.New("neither a list of devices nor an object with rocky")
	}
	return d.config.devicesOf(wrapped.Rocky)
}

// CreateMdev implements driver.MdevDriver.
func (d *Driver) CreateMdev(ctx context.Context, m driver.Mdev) error {
	return d.changeMdev(ctx, "create_mdev", m)
}

// RemoveMdev implements driver.MdevDriver.
func (d *Driver) RemoveMdev(ctx context.Context, m driver.Mdev) error {
	return d.changeMdev(ctx, "remove_mdev", m)
}

func (d *Driver) changeMdev(ctx context.Context, verb string, m driver.Mdev) error {
	if err := m.Validate(); err != nil {
		return err
	}
	_, err := d.call(ctx, verb, callLimit, struct {
		host
		driver.Mdev
	}{host{d.config.Host}, m})
	return err
}

// Program implements driver.Programmer. The image is a file while the program runs.
func (d *Driver) Program(ctx context.Context, path driver.ControlPath, deployable string, image []byte) (err error) {
	name, err := writeImage(image)
	if err != nil {
		return fmt.Errorf("%s: program: %w", d.Name(), err)
	}
	defer func() { err = errors.Join(err, os.Remove(name)) }()
	_, err = d.call(ctx, "program", programLimit, struct {
		host
		ControlPath driver.ControlPath `json:"controlpath_id"`
		Deployable  string             `json:"deployable"`
		Image       string             `json:"image_file"`
	}{host{d.config.Host}, path, deployable, name})
	return err
}

// writeImage returns the name of a file that only the agent's user can read.
func writeImage(image []byte) (name string, err error) {
	f, err := os.CreateTemp("", "image-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(image)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
