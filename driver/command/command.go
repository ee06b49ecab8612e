package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/program"
	"github.com/gocyborg/gocyborg/internal/strictjson"
)

const (
	callLimit    = 30 * time.Second // for a verb that writes no image
	discoverVerb = "discover"
	statusNoLook = 3
)

// Driver calls a program.
type Driver struct {
	config  Config
	program program.Program
}

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
	return &Driver{config, program.Program{Path: config.Program, Driver: config.Name, Logger: config.Logger}}, nil
}

// Name implements driver.Driver.
func (d *Driver) Name() string { return d.config.Name }

// host is part of the input of every verb.
type host struct {
	Host string `json:"host"`
}

// Discover calls the program. Devices of its answer that Cyborg could not store are problems. Errors
// wrap ErrNotLooked, or that of ctx.
func (d *Driver) Discover(ctx context.Context) (driver.Report, error) {
	answer, err := d.call(ctx, discoverVerb, host{d.config.Host})
	if err != nil {
		return driver.Report{}, err
	}
	report, err := d.decode(answer)
	if err != nil {
		return driver.Report{}, fmt.Errorf("%s: discover: answer of %s: %w", d.Name(), d.config.Program, err)
	}
	found := report.Devices
	report.Devices = nil
	for _, device := range found {
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

// decode reads the answer of discover in either form. An entry that cannot be read is a separate
// problem, at its address if it has one, so that an agent keeps the last report of that device.
func (d *Driver) decode(answer []byte) (report driver.Report, err error) {
	if answer = bytes.TrimSpace(answer); bytes.HasPrefix(answer, []byte("[")) {
		var entries []json.RawMessage
		err = strictjson.Decode(answer, &entries)
		for i, entry := range entries {
			var device driver.Device
			err := strictjson.Decode(entry, &device)
			if err == nil && len(device.ControlPath.Info) == 0 {
				err = errors.New("no controlpath_id")
			}
			if err != nil {
				report.AddProblem(controlPathIn(entry), fmt.Errorf("device %d: %w", i, err))
				continue
			}
			report.Devices = append(report.Devices, device)
		}
		return report, err
	}
	var wrapped struct {
		Rocky json.RawMessage `json:"rocky"`
	}
	if err := strictjson.Decode(answer, &wrapped); err != nil {
		return report, err
	}
	if wrapped.Rocky == nil {
		return report, errors.New("neither a list of devices nor an object with rocky")
	}
	return report, d.config.addDictionary(&report, wrapped.Rocky)
}

// controlPathIn returns the address in an entry that may be malformed otherwise, or "".
func controlPathIn(entry []byte) string {
	var device struct {
		ControlPath driver.ControlPath `json:"controlpath_id"`
	}
	if json.Unmarshal(entry, &device) != nil || len(device.ControlPath.Info) == 0 {
		return ""
	}
	return device.ControlPath.Address().String()
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
	_, err := d.call(ctx, verb, struct {
		host
		driver.Mdev
	}{host{d.config.Host}, m})
	return err
}

// Program implements driver.Programmer. The image is a file while the program runs. Once it
// has started, what it has written is not known: only an error from before that matches driver.ErrNotWritten.
func (d *Driver) Program(ctx context.Context, path driver.ControlPath, deployable string, image []byte) error {
	if err := d.mayCall("program"); err != nil {
		return d.failed("program", fmt.Errorf("%w: %w", driver.ErrNotWritten, err))
	}
	err := d.program.Write(ctx, image, func(file string) any {
		return struct {
			host
			ControlPath driver.ControlPath `json:"controlpath_id"`
			Deployable  string             `json:"deployable"`
			Image       string             `json:"image_file"`
		}{host{d.config.Host}, path, deployable, file}
	})
	return d.failed("program", err)
}

// call calls the program with a verb and returns what it wrote.
func (d *Driver) call(ctx context.Context, verb string, arguments any) ([]byte, error) {
	if err := d.mayCall(verb); err != nil {
		return nil, d.failed(verb, err)
	}
	answer, err := d.program.Call(ctx, verb, callLimit, arguments)
	return answer, d.failed(verb, err)
}

// mayCall refuses a verb that changes the hardware without leave.
func (d *Driver) mayCall(verb string) error {
	if verb != discoverVerb && !d.config.Writes {
		return fmt.Errorf("%w: the driver may not write", driver.ErrConfig)
	}
	return nil
}

// failed names the driver and the verb.
func (d *Driver) failed(verb string, err error) error {
	var ended *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ended) && ended.ExitCode() == statusNoLook:
		err = fmt.Errorf("%w: %w", ErrNotLooked, err)
	}
	return fmt.Errorf("%s: %s: %w", d.Name(), verb, err)
}
