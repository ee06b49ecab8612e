package discover

import (
	"log/slog"

	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/command"
)

// ProgramDriver is the driver that calls a program, by its name in enabled_drivers.
const ProgramDriver = "command_driver"

// registry has the drivers that cysim knows.
func registry(log *slog.Logger) (*builtin.Registry, error) {
	drivers := new(builtin.Registry)
	return drivers, drivers.Add(ProgramDriver, command.Loader(log, false))
}
