package main

import (
	"log/slog"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/simcloud"
)

// maxModel limits the size of a model file, in bytes.
const maxModel = 64 << 20

// readModel reads a model from a JSON file; without a file it is the default model.
func readModel(name string) (simcloud.Model, error) {
	if name == "" {
		return simcloud.Model{}, nil
	}
	return command.ParseFile("model", name, maxModel, func(data []byte) (simcloud.Model, error) { return simcloud.ParseModel(data) })
}

// hardwareFlags replace the hosts of a model by real hardware.
type hardwareFlags struct {
	Sysfs      string `placeholder:"DIR" help:"Serve one host with the hardware of this sysfs tree, such as the live /sys, instead of the model's hosts."`
	SysfsWrite bool   `help:"Create mediated devices in that tree. Otherwise they are only recorded, and logged at the end."`
}

// apply replaces the hosts of the model.
func (f hardwareFlags) apply(model simcloud.Model) simcloud.Model {
	if f.Sysfs == "" {
		return model
	}
	model.Hosts = []simcloud.Host{{Name: "cn0", Sysfs: &simcloud.Sysfs{Dir: f.Sysfs, Write: f.SysfsWrite}}}
	return model
}

// logFindings logs the devices that the drivers left out or could not read.
func logFindings(log *slog.Logger, reports []driver.HostReport) {
	for _, report := range reports {
		for _, left := range report.LeftOut {
			log.Info("device left out", "host", report.Host, "driver", report.Driver, "address", left.Address, "reason", left.Reason)
		}
		for _, problem := range report.Problems {
			log.Warn("device not readable", "host", report.Host, "driver", report.Driver, "error", problem)
		}
		if report.Err != nil {
			log.Warn("discovery failed", "host", report.Host, "driver", report.Driver, "error", report.Err)
		}
	}
}
