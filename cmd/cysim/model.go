package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/discover"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/modelfile"
	"github.com/gocyborg/gocyborg/driver"
	programs "github.com/gocyborg/gocyborg/driver/command"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/simcloud"
)

// readModel reads a model from a JSON file; without a file it is the default model.
func readModel(ctx context.Context, name string, drivers simcloud.Option) (simcloud.Model, error) {
	if name == "" {
		return simcloud.Model{}, nil
	}
	return command.ParseFile(ctx, "model", name, modelfile.MaxSize, func(data []byte) (simcloud.Model, error) {
		return simcloud.ParseModel(data, drivers)
	})
}

// scaleFlags make a cloud of equal hosts.
type scaleFlags struct {
	Hosts *int `placeholder:"N" help:"Number of equal hosts cn0, cn1, ... Default with --gpus or --vgpus: 2."`
	GPUs  *int `name:"gpus" placeholder:"N" help:"Number of whole GPUs of each host. Default with --hosts or --vgpus: 2."`
	VGPUs *int `name:"vgpus" placeholder:"N" help:"Number of vGPUs of each host, sixteen on each card. Default with --hosts or --gpus: 16."`
}

// The sizes of a cloud of scaleFlags, by default and at most.
const (
	scaleHosts, maxScaleHosts = 2, 100_000
	scaleGPUs, scaleVGPUs     = 2, 16
	maxScaleCards             = 240 // of simcloud.Scale
)

// apply replaces the hosts, profiles and flavors of the model.
func (f scaleFlags) apply(model simcloud.Model) (simcloud.Model, error) {
	if f == (scaleFlags{}) {
		return model, nil
	}
	if model.Hosts != nil {
		return model, command.BadInput(errors.New("--hosts, --gpus and --vgpus cannot be combined with the hosts of --model"))
	}
	hosts, gpus, vgpus := valueOr(f.Hosts, scaleHosts), valueOr(f.GPUs, scaleGPUs), valueOr(f.VGPUs, scaleVGPUs)
	switch cards := gpus + (vgpus+scaleVGPUs-1)/scaleVGPUs; {
	case hosts < 1 || hosts > maxScaleHosts:
		return model, command.BadInput(fmt.Errorf("--hosts %d: want 1 to %d", hosts, maxScaleHosts))
	case gpus < 0 || vgpus < 0 || gpus > maxScaleCards || vgpus > maxScaleCards*scaleVGPUs || cards > maxScaleCards:
		return model, command.BadInput(fmt.Errorf("--gpus %d --vgpus %d: want at most %d cards; a GPU is one, and %d vGPUs share one", gpus, vgpus, maxScaleCards, scaleVGPUs))
	}
	model.Hosts = simcloud.Scale{Hosts: hosts, GPUs: gpus, VGPUs: vgpus}.Model().Hosts
	return model, nil
}

func valueOr(flag *int, otherwise int) int {
	if flag == nil {
		return otherwise
	}
	return *flag
}

// hardwareFlags replace the hosts of a model by real hardware.
type hardwareFlags struct {
	Sysfs           string `placeholder:"DIR" help:"Serve one host with the hardware of this sysfs tree, such as the live /sys, instead of the model's hosts."`
	SysfsWrite      bool   `help:"Create mediated devices in that tree. Otherwise they are only recorded, and logged at the end."`
	DriverWrites    bool   `help:"Allow command_driver to call its program to create and remove mediated devices and to program devices, if its section sets writes, and allow the FPGA drivers to call the bitstream_loader of a model or of --driver-config."`
	BitstreamLoader string `placeholder:"PROGRAM" help:"Program that writes bitstreams to the FPGAs of --sysfs, an absolute path. It is called with the argument program, and gets a JSON object on its standard input."`
	DriverConfig    string `placeholder:"FILE" help:"Configuration of the drivers for --sysfs: a cyborg.conf, or JSON. Default: all drivers except fake_driver, with their defaults."`
	Host            string `placeholder:"NAME" help:"Name of that host, as its resource provider has it. Default: [DEFAULT] host of --driver-config, or cn0."`
}

// drivers has the driver that is a program, which hosts of a model may have, too.
func (f hardwareFlags) drivers(log *slog.Logger) simcloud.Option {
	return simcloud.WithDriver(discover.ProgramDriver, programs.Loader(log, f.DriverWrites))
}

// apply replaces the hosts of the model.
func (f hardwareFlags) apply(ctx context.Context, model simcloud.Model, log *slog.Logger) (simcloud.Model, error) {
	if f.Sysfs == "" {
		if f.Host != "" && f.DriverConfig == "" && !f.SysfsWrite && f.BitstreamLoader == "" {
			return model, command.BadInput(errors.New("--host is the name of the host of --sysfs; --listen selects the address"))
		}
		if f.DriverConfig != "" || f.Host != "" || f.SysfsWrite || f.BitstreamLoader != "" {
			return model, command.BadInput(errors.New("--driver-config, --host, --sysfs-write and --bitstream-loader need --sysfs"))
		}
		return model, f.mayLoad(model.Hosts, log)
	}
	config, err := discover.ReadConfig(ctx, f.DriverConfig, f.Sysfs)
	if err != nil {
		return model, err
	}
	if f.BitstreamLoader != "" {
		if config.FPGA == nil {
			config.FPGA = new(fpga.Config)
		}
		config.FPGA.BitstreamLoader = f.BitstreamLoader
	}
	config.Host = cmp.Or(f.Host, config.Host, "cn0")
	model.Hosts = []simcloud.Host{{Name: config.Host, Sysfs: &simcloud.Sysfs{Dir: f.Sysfs, Write: f.SysfsWrite}, Drivers: &config}}
	return model, f.mayLoad(model.Hosts, log)
}

// mayLoad refuses loaders of bitstreams that only a file names: a file must not change the hardware by
// itself. What the others write to their standard error goes to the log.
func (f hardwareFlags) mayLoad(hosts []simcloud.Host, log *slog.Logger) error {
	for _, host := range hosts {
		if host.Drivers == nil || host.Drivers.FPGA == nil {
			continue
		}
		section := host.Drivers.FPGA
		if section.BitstreamLoader != "" && f.BitstreamLoader == "" && !f.DriverWrites {
			return command.BadInput(fmt.Errorf("host %s: drivers.fpga.bitstream_loader needs --driver-writes", host.Name))
		}
		section.Logger = log
	}
	return nil
}

// logFindings logs what the drivers found, what they left out and why, which devices Nova offers, too, and what they
// could not read.
func logFindings(log *slog.Logger, reports []driver.HostReport) {
	for _, report := range reports {
		if report.Devices > 0 {
			log.Info("devices found", "host", report.Host, "driver", report.Driver, "devices", report.Devices)
		}
		for _, warning := range report.Warnings {
			log.Warn("device offered", "host", report.Host, "driver", report.Driver, "address", warning.Address, "warning", warning.Reason)
		}
		for _, left := range report.LeftOut {
			log.Info("device left out", "host", report.Host, "driver", report.Driver, "address", left.Address, "reason", left.Reason)
		}
		for _, conflict := range report.Conflicts {
			log.Warn("device refused, because Nova offers it, too", "host", report.Host, "driver", report.Driver, "address", conflict.Address, "reason", conflict.Reason)
		}
		for _, problem := range report.Problems {
			log.Warn("device not usable", "host", report.Host, "driver", report.Driver, "error", problem)
		}
		if report.Err != nil {
			log.Warn("discovery failed", "host", report.Host, "driver", report.Driver, "error", report.Err)
		}
	}
}
