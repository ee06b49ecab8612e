package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// cyborgCommand serves Cyborg alone. The fields of Config are those of the
// model's cyborg; one that is given wins over the file.
type cyborgCommand struct {
	listenFlags
	authFlag
	faultsFlag
	PlacementURL   string `name:"placement-url" required:"" placeholder:"URL" help:"Root of the Placement that devices are reported to; it has the hosts as resource providers."`
	PlacementToken string `placeholder:"TOKEN" default:"admin" help:"X-Auth-Token for Placement (${default})."`
	ComputeURL     string `name:"compute-url" placeholder:"URL" help:"Root of the compute API that events go to, such as http://HOST/compute/v2.1; without it they are kept only."`
	ComputeToken   string `placeholder:"TOKEN" help:"X-Auth-Token for the compute API; default: none."`
	ImageURL       string `name:"image-url" placeholder:"URL" help:"Root of the image API that bitstreams are read from, such as http://HOST/image/v2; without it no FPGA can be programmed."`
	ImageToken     string `placeholder:"TOKEN" help:"X-Auth-Token for the image API; default: none."`
	Model          string `placeholder:"FILE" help:"The hosts and their devices, in JSON; default: two hosts with a mixed set of devices."`
	hardwareFlags

	Config fakecyborg.Config `embed:""`
}

// Run implements the command.
func (c *cyborgCommand) Run(p *process, line *kong.Context) error {
	options, err := c.peers()
	if err != nil {
		return err
	}
	model, err := c.world(line)
	if err != nil {
		return err
	}
	faults := fault.NewSet(fakecyborg.Operations()...)
	faults.Seed(model.Cyborg.Seed)
	if err := c.set(faults); err != nil {
		return err
	}
	server, err := fakecyborg.New(model.Cyborg, append(options, fakecyborg.WithFaults(faults))...)
	if err != nil {
		return badInput(err)
	}
	defer server.Close()
	hosts, closeHosts, err := model.Agents()
	if err != nil {
		return badInput(err)
	}
	return errors.Join(c.serve(p, server, model, hosts), closeHosts())
}

// world is the model of the file, with the flags that were given laid over it.
func (c *cyborgCommand) world(line *kong.Context) (simcloud.Model, error) {
	model, err := readModel(c.Model)
	if err != nil {
		return model, err
	}
	c.Config = model.Cyborg
	if _, err := line.Apply(); err != nil {
		return model, badInput(err)
	}
	model.Cyborg = c.Config
	if model.Cyborg.Seed == 0 {
		model.Cyborg.Seed = model.Seed
	}
	if model.DeviceProfiles == nil {
		model.DeviceProfiles = simcloud.DefaultModel().DeviceProfiles
	}
	return c.hardwareFlags.apply(model), nil
}

// peers are the services that Cyborg speaks to.
func (c *cyborgCommand) peers() ([]fakecyborg.Option, error) {
	if err := checkURL("placement-url", c.PlacementURL); err != nil {
		return nil, err
	}
	options := []fakecyborg.Option{
		fakecyborg.WithPlacement(sim.Endpoint{URL: c.PlacementURL, Token: fixed(c.PlacementToken)}),
		fakecyborg.WithAgentLoop(),
	}
	for _, peer := range []struct {
		flag, url, token string
		with             func(sim.Endpoint) fakecyborg.Option
	}{
		{"compute-url", c.ComputeURL, c.ComputeToken, fakecyborg.WithNova},
		{"image-url", c.ImageURL, c.ImageToken, fakecyborg.WithGlance},
	} {
		if peer.url == "" {
			continue
		}
		if err := checkURL(peer.flag, peer.url); err != nil {
			return nil, err
		}
		endpoint := sim.Endpoint{URL: peer.url}
		if peer.token != "" {
			endpoint.Token = fixed(peer.token)
		}
		options = append(options, peer.with(endpoint))
	}
	return options, nil
}

// fixed hands out the same token every time.
func fixed(token string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return token, nil }
}

// serve fills the server before anybody can ask it, and listens.
func (c *cyborgCommand) serve(p *process, server *fakecyborg.Server, model simcloud.Model, hosts []fakecyborg.Host) error {
	listener, err := c.open(p)
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := fill(p, server, model, hosts); err != nil {
		return badInput(err)
	}
	logFindings(p.log, server.DriverReports())
	base := baseURL(listener)
	if err := printExports(p.stdout, variable{"CYSIM_ACCELERATOR_URL", base + "/v2"}); err != nil {
		return err
	}
	p.log.Info(fmt.Sprintf("Cyborg listens on %s", base))
	return serveHTTP(p.ctx, listener, server, p.log)
}

// fill creates the model's device profiles and lets the agents of its hosts
// report. A Placement that is not up yet, or does not know a host, is no reason
// to give up: the agents report again.
func fill(p *process, server *fakecyborg.Server, model simcloud.Model, hosts []fakecyborg.Host) error {
	for _, profile := range model.DeviceProfiles {
		if _, err := server.CreateDeviceProfile(profile.Name, profile.Groups); err != nil {
			return err
		}
	}
	for _, host := range hosts {
		if err := server.AddHost(host); err != nil {
			return err
		}
		if err := server.ReportHost(p.ctx, host.Name); err != nil {
			p.log.Warn("the report failed and will be repeated", "host", host.Name, "error", err)
		}
	}
	return nil
}
