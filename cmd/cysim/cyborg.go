package main

import (
	"context"
	"errors"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// cyborgCommand serves Cyborg alone. A flag of Config overrides the field of the model.
type cyborgCommand struct {
	listenFlags
	authFlag
	faultsFlag
	PlacementURL   command.URL `name:"placement-url" required:"" placeholder:"URL" help:"Root of the Placement that devices are reported to; it must have the hosts as resource providers."`
	PlacementToken string      `placeholder:"TOKEN" default:"admin" help:"X-Auth-Token for Placement (${default})."`
	ComputeURL     command.URL `name:"compute-url" placeholder:"URL" help:"Root of the compute API that events go to, such as http://HOST/compute/v2.1; without it they are only kept."`
	ComputeToken   string      `placeholder:"TOKEN" help:"X-Auth-Token for the compute API. Default: none."`
	ImageURL       command.URL `name:"image-url" placeholder:"URL" help:"Root of the image API that bitstreams are read from, such as http://HOST/image/v2; without it no FPGA can be programmed."`
	ImageToken     string      `placeholder:"TOKEN" help:"X-Auth-Token for the image API. Default: none."`
	Model          string      `placeholder:"FILE" help:"Hosts and their devices, in JSON. Default: two hosts with a mixed set of devices."`
	hardwareFlags

	Config fakecyborg.Config `embed:""`
}

// Run implements the command.
func (c *cyborgCommand) Run(ctx context.Context, p *command.Process, line *kong.Context) error {
	drivers := c.drivers(p.Log)
	model, err := c.model(line, drivers)
	if err != nil {
		return err
	}
	faults, err := c.newSet(model.Cyborg.Seed, fakecyborg.Operations())
	if err != nil {
		return err
	}
	server, err := fakecyborg.New(model.Cyborg, append(c.peers(), fakecyborg.WithFaults(faults))...)
	if err != nil {
		return command.BadInput(err)
	}
	defer server.Close()
	hosts, closeHosts, err := model.Agents(drivers)
	if err != nil {
		return command.BadInput(err)
	}
	err = c.run(ctx, p, "Cyborg", server, func(base string) ([]variable, error) {
		if err := buildWorld(ctx, p, server, model, hosts); err != nil {
			return nil, command.BadInput(err)
		}
		logFindings(p.Log, server.DriverReports())
		return []variable{{"CYSIM_ACCELERATOR_URL", base + "/v2"}}, nil
	})
	return errors.Join(err, closeHosts())
}

// model is the model of the file, overridden by the flags.
func (c *cyborgCommand) model(line *kong.Context, drivers simcloud.Option) (simcloud.Model, error) {
	model, err := readModel(c.Model, drivers)
	if err != nil {
		return model, err
	}
	c.Config = model.Cyborg
	if _, err := line.Apply(); err != nil {
		return model, command.BadInput(err)
	}
	model.Cyborg = c.Config
	if model.Cyborg.Seed == 0 {
		model.Cyborg.Seed = model.Seed
	}
	if model.DeviceProfiles == nil {
		model.DeviceProfiles = simcloud.DefaultModel().DeviceProfiles
	}
	return c.apply(model)
}

// peers are the options for the services that Cyborg calls.
func (c *cyborgCommand) peers() []fakecyborg.Option {
	options := []fakecyborg.Option{fakecyborg.WithAgentLoop(), fakecyborg.WithPlacement(newEndpoint(c.PlacementURL, c.PlacementToken))}
	if c.ComputeURL != "" {
		options = append(options, fakecyborg.WithNova(newEndpoint(c.ComputeURL, c.ComputeToken)))
	}
	if c.ImageURL != "" {
		options = append(options, fakecyborg.WithGlance(newEndpoint(c.ImageURL, c.ImageToken)))
	}
	return options
}

// newEndpoint is the service at a URL, without token if that is empty.
func newEndpoint(url command.URL, token string) sim.Endpoint {
	endpoint := sim.Endpoint{URL: string(url)}
	if token != "" {
		endpoint.Token = func(context.Context) (string, error) { return token, nil }
	}
	return endpoint
}

// buildWorld creates the model's device profiles and lets the agents of its hosts report.
// A report may fail, because a Placement may not be up yet or may not know a host: the
// agents report again.
func buildWorld(ctx context.Context, p *command.Process, server *fakecyborg.Server, model simcloud.Model, hosts []driver.Host) error {
	for _, profile := range model.DeviceProfiles {
		if _, err := server.CreateDeviceProfile(profile.Name, profile.Groups); err != nil {
			return err
		}
	}
	for _, host := range hosts {
		if err := server.AddHost(host); err != nil {
			return err
		}
		if err := server.ReportHost(ctx, host.Name); err != nil {
			p.Log.Warn("report failed, will be repeated", "host", host.Name, "error", err)
		}
	}
	return nil
}
