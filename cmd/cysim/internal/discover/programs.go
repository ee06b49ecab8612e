package discover

import (
	"log/slog"

	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/command"
)

// ProgramDriver is the driver that calls a program, by its name in enabled_drivers.
const ProgramDriver = "command_driver"

// registry has the drivers that cysim knows. Without writes, that for programs does not change the hardware.
func registry(log *slog.Logger, writes bool) (*builtin.Registry, error) {
	drivers := new(builtin.Registry)
	return drivers, drivers.Add(ProgramDriver, command.Loader(log, writes))
}
