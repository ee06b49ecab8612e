package discover

import (
	"errors"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver"
)

// writeObjects writes what upstream's agent gets from its drivers. Problems are logged. A driver that failed
// must not be taken for one that found nothing: then nothing is written. Devices that upstream cannot store
// are logged and left out.
func writeObjects(p *command.Process, reports []driver.Report, problems []foundProblem) error {
	devices := []driver.Device{}
	var failed []error
	for _, report := range reports {
		failed = append(failed, report.Err)
		for _, d := range report.Devices {
			if d.Type == driver.TypeHPTS || d.ControlPath.Type != driver.ControlPathPCI {
				p.Log.Warn("a device that upstream cannot store is left out", "address", d.ControlPath.Address().String(), "type", d.Type)
				continue
			}
			devices = append(devices, d)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for _, problem := range problems {
		p.Log.Warn("not understood", "address", problem.Address, "file", problem.File, "driver", problem.Driver, "reason", problem.Reason)
	}
	text, err := driver.MarshalObjects(devices)
	if err != nil {
		return err
	}
	_, err = p.Stdout.Write(text)
	return err
}
