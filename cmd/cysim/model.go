package main

import (
	"fmt"
	"log/slog"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// maxModel is the longest model file that is read, in bytes.
const maxModel = 64 << 20

// readModel reads a world from a JSON file; without a file it is the default
// world.
func readModel(name string) (simcloud.Model, error) {
	if name == "" {
		return simcloud.Model{}, nil
	}
	data, err := readBounded(name, maxModel)
	if err != nil {
		return simcloud.Model{}, badInput(fmt.Errorf("--model: %w", err))
	}
	model, err := simcloud.ParseModel(data)
	if err != nil {
		return simcloud.Model{}, badInput(fmt.Errorf("--model %s: %w", name, err))
	}
	return model, nil
}

// hardwareFlags put real hardware into the world.
type hardwareFlags struct {
	Sysfs      string `placeholder:"DIR" help:"Serve one host with the hardware of this sysfs tree instead of the model's hosts; the live /sys works."`
	SysfsWrite bool   `help:"Make mediated devices in that tree; otherwise their making is recorded and logged at the end."`
}

// apply replaces the hosts of the model.
func (f hardwareFlags) apply(model simcloud.Model) simcloud.Model {
	if f.Sysfs == "" {
		return model
	}
	model.Hosts = simcloud.SysfsModel(f.Sysfs).Hosts
	for i := range model.Hosts {
		model.Hosts[i].Sysfs.Write = f.SysfsWrite
	}
	return model
}

// logFindings tells what the drivers left out or did not understand.
func logFindings(log *slog.Logger, reports []fakecyborg.DriverReport) {
	for _, report := range reports {
		for _, left := range report.LeftOut {
			log.Info("device left out", "host", report.Host, "driver", report.Driver, "address", left.Address, "reason", left.Reason)
		}
		for _, problem := range report.Problems {
			log.Warn("device not understood", "host", report.Host, "driver", report.Driver, "error", problem)
		}
		if report.Err != nil {
			log.Warn("discovery failed", "host", report.Host, "driver", report.Driver, "error", report.Err)
		}
	}
}
