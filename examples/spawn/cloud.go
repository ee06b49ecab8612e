package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/command"
	"github.com/gocyborg/gocyborg/driver/cyborgconf"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

// cloud is an embedded or a real cloud, with a flow against it.
type cloud struct {
	title  string
	flow   *spawn.Flow
	sim    *simcloud.Cloud // nil: a real cloud
	guests *hypervisor     // of sim
	served *sim.Control    // of cysim serve; nil: not that cloud
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
	if opts.Fail == failWait {
		model.Cyborg.BindDelay = time.Hour
	}
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
	hosts := &hypervisor{guests.New(simulated), simulated, opts.Fail}
	flow, err := spawn.NewFromProvider(provider, spawn.WithServiceProvider(service), spawn.WithConfig(config), spawn.WithEvents(events), spawn.WithHypervisor(hosts))
	return &cloud{
		sim: simulated, flow: flow, guests: hosts,
		title: "Embedded cloud, hosts " + strings.Join(simulated.HostNames(), ", "),
	}, err
}

// openReal logs in to a cloud of clouds.yaml. Nova sends its events to its own agents and
// not to this program, so the flow polls. Without a service token Cyborg refuses to bind.
func openReal(ctx context.Context, opts options, config spawn.Config) (*cloud, error) {
	options := []spawn.Option{spawn.WithServiceCloud(opts.ServiceCloud), spawn.WithConfig(config)}
	served := servedBy(opts.Cloud)
	if served != nil {
		options = append(options, spawn.WithHypervisor(guests.Remote(*served)))
	}
	flow, err := spawn.NewFromCloud(ctx, opts.Cloud, options...)
	return &cloud{flow: flow, title: "Cloud " + opts.Cloud, served: served}, err
}

// request returns the request for the instance, with its flavor.
func (c *cloud) request(ctx context.Context, opts options) (request spawn.Request, err error) {
	request = spawn.Request{Instance: opts.instance(), Domain: opts.Domain.Contents}
	switch {
	case opts.Flavor == "":
		var profile string
		profile, err = ensureProfile(ctx, opts, c.flow.Cyborg())
		request.Flavor = c.flavor(profile)
	case c.sim != nil:
		request.Flavor, err = findFlavor(opts.Flavor, c.sim.Model().Flavors)
	default:
		var list []simcloud.Flavor
		if list, err = novaFlavors(ctx, opts); err == nil {
			request.Flavor, err = findFlavor(opts.Flavor, list)
		}
	}
	return request, err
}

// findFlavor returns the flavor with a name.
func findFlavor(name string, list []simcloud.Flavor) (requestspec.Flavor, error) {
	var names []string
	for _, flavor := range list {
		if flavor.Name == name {
			return requestspec.Flavor(flavor), nil
		}
		names = append(names, flavor.Name)
	}
	return requestspec.Flavor{}, fmt.Errorf("--flavor %s: the cloud has the flavors %s", name, strings.Join(names, ", "))
}

// novaFlavors lists the flavors of a real cloud's Nova, that of --flavor with its extra specs.
// It logs in once more, since the flow's clients send their token to Cyborg
// and Placement only.
func novaFlavors(ctx context.Context, opts options) ([]simcloud.Flavor, error) {
	auth, endpoints, tls, err := clouds.Parse(clouds.WithCloudName(opts.Cloud))
	if err != nil {
		return nil, err
	}
	provider, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	if err != nil {
		return nil, err
	}
	compute, err := openstack.NewComputeV2(provider, endpoints)
	if err != nil {
		return nil, err
	}
	pages, err := flavors.ListDetail(compute, flavors.ListOpts{AccessType: flavors.AllAccess}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("list flavors: %w", err)
	}
	found, err := flavors.ExtractFlavors(pages)
	if err != nil {
		return nil, fmt.Errorf("list flavors: %w", err)
	}
	list := make([]simcloud.Flavor, 0, len(found))
	for _, f := range found {
		flavor := simcloud.Flavor{Name: f.Name, VCPUs: f.VCPUs, MemoryMB: f.RAM, RootGB: f.Disk, EphemeralGB: f.Ephemeral, SwapMB: f.Swap}
		if f.Name == opts.Flavor {
			if flavor.ExtraSpecs, err = flavors.ListExtraSpecs(ctx, compute, f.ID).Extract(); err != nil {
				return nil, fmt.Errorf("extra specs of flavor %s: %w", f.Name, err)
			}
		}
		list = append(list, flavor)
	}
	return list, nil
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

// remove releases what an instance of an earlier run of this program holds.
func (c *cloud) remove(ctx context.Context, instance string) error {
	if c.served != nil {
		if err := c.served.RemoveGuest(ctx, instance); err != nil {
			return err
		}
	}
	return c.flow.Release(ctx, instance)
}

func (c *cloud) close() error {
	if c.sim == nil {
		return nil
	}
	return c.sim.Close()
}
