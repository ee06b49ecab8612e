package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// serveCommand serves a whole cloud. The flags from Seed on override the fields of the
// model.
type serveCommand struct {
	listenFlags
	faultsFlag
	clockFlags
	stateFlags
	CloudsYAML string   `name:"clouds-yaml" placeholder:"FILE" help:"Write the clouds sim (admin), sim-demo (member) and sim-svc (service) to this clouds.yaml."`
	EventsTo   []string `placeholder:"URL" sep:"none" help:"Forward the events for Nova to this URL; may be repeated."`
	AgentLoop  bool     `help:"Let the agents report every minute, as real ones do, instead of only at the start."`
	Model      string   `placeholder:"FILE" help:"Model of the cloud, in JSON. Default: two hosts with a mixed set of devices."`
	hardwareFlags

	Seed            uint64              `help:"Seed for generated identifiers and all randomness."`
	Region          string              `help:"Region of the catalog. Default: RegionOne."`
	StrictInstances bool                `help:"Accept events only for registered guests, as Nova does."`
	StrictRequests  bool                `help:"Reject requests with unknown query keys or body fields."`
	TokenLifetime   simcloud.Duration   `help:"How long a token is valid. Default: 1h."`
	Cyborg          fakecyborg.Config   `embed:"" prefix:"cyborg-"`
	Placement       placementsim.Config `embed:"" prefix:"placement-"`
}

// Run implements the command.
func (c *serveCommand) Run(ctx context.Context, p *command.Process, line *kong.Context) error {
	model, err := c.model(line)
	if err != nil {
		return err
	}
	for _, target := range c.EventsTo {
		if err := command.CheckURL("events-to", target); err != nil {
			return err
		}
	}
	if c.CloudsYAML != "" {
		if err := checkCloudsFile(c.CloudsYAML); err != nil {
			return err
		}
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	cloud, err := c.cloud(ctx, model, options)
	if err != nil {
		return command.BadInput(err)
	}
	if err := c.set(cloud.Faults()); err != nil {
		return errors.Join(err, cloud.Close())
	}
	err = c.run(ctx, p, "the cloud", c.guard(cloud.Handler()),
		func(base string) ([]variable, error) { return c.prepare(p, cloud, base) }, cloud.EndStreams)
	for _, host := range cloud.HostNames() {
		for _, write := range cloud.Overlaid(host) {
			p.Log.Info("recorded, not written to the hardware", "host", host, "write", write)
		}
	}
	return errors.Join(err, cloud.Close())
}

func (c *serveCommand) options() ([]simcloud.Option, error) {
	options, err := c.clockFlags.options()
	if c.AgentLoop {
		options = append(options, simcloud.WithAgentLoop())
	}
	return options, err
}

// model is the model of the file, overridden by the flags.
func (c *serveCommand) model(line *kong.Context) (simcloud.Model, error) {
	model, err := readModel(c.Model)
	if err != nil {
		return model, err
	}
	c.Seed, c.Region, c.StrictInstances, c.TokenLifetime = model.Seed, model.Region, model.StrictInstances, model.TokenLifetime
	c.Cyborg, c.Placement, c.StrictRequests = model.Cyborg, model.Placement, model.StrictRequests
	if _, err := line.Apply(); err != nil {
		return model, command.BadInput(err)
	}
	model.Seed, model.Region, model.StrictInstances, model.TokenLifetime = c.Seed, c.Region, c.StrictInstances, c.TokenLifetime
	model.Cyborg, model.Placement, model.StrictRequests = c.Cyborg, c.Placement, c.StrictRequests
	return c.apply(model), nil
}

// prepare writes clouds.yaml, forwards events and logs findings. It returns the variables of
// a shell for the cloud.
func (c *serveCommand) prepare(p *command.Process, cloud *simcloud.Cloud, base string) ([]variable, error) {
	region := cloud.Model().Region
	if c.CloudsYAML != "" {
		if err := writeCloudsFile(c.CloudsYAML, base, region); err != nil {
			return nil, err
		}
	}
	if err := cloud.ForwardEventsTo(c.EventsTo...); err != nil {
		return nil, command.BadInput(fmt.Errorf("--events-to: %w", err))
	}
	logFindings(p.Log, cloud.Findings())
	if c.State != "" {
		p.Log.Info("the state is kept in a file", "state", c.State)
	}
	return openStackVariables(base, region, admin()), nil
}
