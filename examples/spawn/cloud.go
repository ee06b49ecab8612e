package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/command"
	"github.com/gocyborg/gocyborg/driver/cyborgconf"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// cloud is an embedded or a real cloud, with a flow against it.
type cloud struct {
	title string
	flow  *spawn.Flow
	sim   *simcloud.Cloud // nil: a real cloud
}

func openCloud(ctx context.Context, opts options, config spawn.Config) (*cloud, error) {
	if opts.Cloud != "" {
		return openReal(ctx, opts, config)
	}
	return openEmbedded(ctx, opts, config)
}

// hardware is the host of --sysfs.
func (o *options) hardware() (simcloud.Host, error) {
	var config builtin.Config
	if o.DriverConfig.Filename != "" {
		var err error
		if config, err = cyborgconf.Parse(o.DriverConfig.Contents); err != nil {
			return simcloud.Host{}, fmt.Errorf("--driver-config %s: %w", o.DriverConfig.Filename, err)
		}
	}
	if config.EnabledDrivers == nil {
		config.EnabledDrivers = builtin.Hardware()
	}
	if config.FPGA == nil && o.BitstreamLoader != "" {
		config.FPGA = new(fpga.Config)
	}
	if config.FPGA != nil { // a configuration alone does not have hardware changed
		config.FPGA.BitstreamLoader, config.FPGA.Logger = o.BitstreamLoader, slog.Default()
	}
	config.Host = cmp.Or(o.Host, config.Host, "cn0")
	return simcloud.Host{Name: config.Host, Sysfs: &simcloud.Sysfs{Dir: o.Sysfs}, Drivers: &config}, nil
}

// openEmbedded starts a simulated cloud inside the process.
func openEmbedded(ctx context.Context, opts options, config spawn.Config) (*cloud, error) {
	model := simcloud.DefaultModel()
	if opts.Sysfs != "" {
		host, err := opts.hardware()
		if err != nil {
			return nil, err
		}
		model = simcloud.Model{Hosts: []simcloud.Host{host}}
		if o := opts.Bitstream; o.Filename != "" {
			name := filepath.Base(o.Filename)
			model.Images = []simcloud.Image{{Name: name, Properties: map[string]string{"accel:bitstream_name": name}, Data: string(o.Contents)}}
		}
	}
	model.Seed = opts.Seed
	// A driver of --driver-config may be a program, in any language; it only discovers here.
	programs := simcloud.WithDriver("command_driver", command.Loader(slog.Default(), false))
	simulated, err := simcloud.New(ctx, model, programs)
	if err != nil {
		return nil, fmt.Errorf("embedded cloud: %w", err)
	}
	provider, err := simulated.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, err
	}
	service, err := simulated.ProviderClient(ctx, "nova")
	if err != nil {
		return nil, err
	}
	events := externalevent.NewRegistry()
	simulated.HandleEvents(events.Handler())
	flow, err := spawn.NewFromProvider(provider, spawn.WithServiceProvider(service), spawn.WithConfig(config), spawn.WithEvents(events))
	return &cloud{sim: simulated, flow: flow, title: "Embedded cloud, hosts " + strings.Join(simulated.HostNames(), ", ")}, err
}

// openReal logs in to a cloud of clouds.yaml. Nova sends its events to its own agents and
// not to this program, so the flow polls. Without a service token Cyborg refuses to bind.
func openReal(ctx context.Context, opts options, config spawn.Config) (*cloud, error) {
	flow, err := spawn.NewFromCloud(ctx, opts.Cloud, spawn.WithServiceCloud(opts.ServiceCloud), spawn.WithConfig(config))
	return &cloud{flow: flow, title: "Cloud " + opts.Cloud}, err
}

// flavor returns the model's flavor that names the profile, or makes one.
func (c *cloud) flavor(profile string) requestspec.Flavor {
	if c.sim != nil {
		for _, flavor := range c.sim.Model().Flavors {
			if flavor.ExtraSpecs[requestspec.DeviceProfileKey] == profile {
				return requestspec.Flavor(flavor)
			}
		}
	}
	return requestspec.Flavor{
		Name: "accel." + profile, VCPUs: 4, MemoryMB: 8192, RootGB: 20,
		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: profile},
	}
}

func (c *cloud) close() error {
	if c.sim == nil {
		return nil
	}
	return c.sim.Close()
}
