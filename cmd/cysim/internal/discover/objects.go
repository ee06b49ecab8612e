package discover

import (
	"errors"
	"slices"
	"syscall"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver"
)

// writeObjects writes what upstream's agent gets from its drivers. Problems are logged. If a
// driver failed or a device could not be read, nothing is written: the agent would treat the
// hardware as removed. What upstream cannot store or bind is logged and left out.
func writeObjects(p *command.Process, reports []driver.Report, problems []foundProblem) error {
	devices := []driver.Device{}
	var failed []error
	for _, report := range reports {
		failed = append(failed, report.Err)
		for _, problem := range report.Problems {
			if unread := syscall.Errno(0); errors.As(problem, &unread) && unread != syscall.ENOENT {
				failed = append(failed, problem)
			}
		}
		for _, d := range report.Devices {
			if why := foreignToUpstream(&d); why != "" {
				p.Log.Warn("left out: "+why, "address", d.ControlPath.Address().String(), "type", d.Type)
			}
			if len(d.Deployables) > 0 {
				devices = append(devices, d)
			}
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

// foreignToUpstream removes the deployables of a device that upstream cannot store or bind, and says why.
func foreignToUpstream(d *driver.Device) string {
	if d.Type == driver.TypeHPTS || d.ControlPath.Type != driver.ControlPathPCI {
		d.Deployables = nil
		return "upstream cannot store the device"
	}
	all := len(d.Deployables)
	d.Deployables = slices.DeleteFunc(slices.Clone(d.Deployables), func(p driver.Deployable) bool {
		return slices.ContainsFunc(p.AttachHandles, func(h driver.AttachHandle) bool { _, found, _ := h.VGPU(); return found })
	})
	if len(d.Deployables) < all {
		return "upstream's agent sets no vGPU types, and a guest cannot start with a function that has none"
	}
	return ""
}
