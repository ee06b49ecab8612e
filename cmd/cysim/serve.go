package main

import (
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// serveCommand serves a whole cloud. The flags from Seed on are fields of the
// model; one that is given wins over the file.
type serveCommand struct {
	listenFlags
	faultsFlag
	clockFlags
	stateFlags
	CloudsYAML string   `name:"clouds-yaml" placeholder:"FILE" help:"Write the clouds sim (admin), sim-demo (member) and sim-svc (service) to this file."`
	EventsTo   []string `placeholder:"URL" sep:"none" help:"Pass the events for Nova on to this URL; may be repeated."`
	AgentLoop  bool     `help:"Let the agents report every minute, as real ones do, and not only at the start."`
	Model      string   `placeholder:"FILE" help:"The world to serve, in JSON; default: two hosts with a mixed set of devices."`
	hardwareFlags

	Seed            uint64              `help:"Chooses every identifier and the order of everything random."`
	Region          string              `help:"Region of the catalog; default: RegionOne."`
	StrictInstances bool                `help:"Let Nova's stand-in answer events as Nova does: only for guests it has."`
	StrictRequests  bool                `help:"Refuse requests of which something is read by nobody: a query key, a header, a member of the body."`
	TokenLifetime   simcloud.Duration   `help:"How long a token is valid; default: 1h."`
	Cyborg          fakecyborg.Config   `embed:"" prefix:"cyborg-"`
	Placement       placementsim.Config `embed:"" prefix:"placement-"`
}

// Run implements the command.
func (c *serveCommand) Run(p *process, line *kong.Context) error {
	model, err := c.world(line)
	if err != nil {
		return err
	}
	for _, target := range c.EventsTo {
		if err := checkURL("events-to", target); err != nil {
			return err
		}
	}
	if c.CloudsYAML != "" {
		if err := checkCloudsFile(c.CloudsYAML); err != nil {
			return badInput(err)
		}
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	cloud, err := c.cloud(p, model, options)
	if err != nil {
		return badInput(err)
	}
	if err := c.set(cloud.Faults()); err != nil {
		return errors.Join(err, cloud.Close())
	}
	return errors.Join(c.serve(p, cloud), cloud.Close())
}

func (c *serveCommand) options() ([]simcloud.Option, error) {
	options, err := c.clock()
	if c.AgentLoop {
		options = append(options, simcloud.WithAgentLoop())
	}
	return options, err
}

// world is the model of the file, with the flags that were given laid over it.
func (c *serveCommand) world(line *kong.Context) (simcloud.Model, error) {
	model, err := readModel(c.Model)
	if err != nil {
		return model, err
	}
	c.Seed, c.Region, c.StrictInstances, c.TokenLifetime = model.Seed, model.Region, model.StrictInstances, model.TokenLifetime
	c.Cyborg, c.Placement, c.StrictRequests = model.Cyborg, model.Placement, model.StrictRequests
	if _, err := line.Apply(); err != nil {
		return model, badInput(err)
	}
	model.Seed, model.Region, model.StrictInstances, model.TokenLifetime = c.Seed, c.Region, c.StrictInstances, c.TokenLifetime
	model.Cyborg, model.Placement, model.StrictRequests = c.Cyborg, c.Placement, c.StrictRequests
	return c.hardwareFlags.apply(model), nil
}

func (c *serveCommand) serve(p *process, cloud *simcloud.Cloud) error {
	listener, err := c.open(p)
	if err != nil {
		return err
	}
	defer listener.Close()
	base, region := baseURL(listener), cloud.Model().Region
	if c.CloudsYAML != "" {
		if err := writeCloudsFile(c.CloudsYAML, base, region); err != nil {
			return badInput(err)
		}
	}
	if err := cloud.ForwardEventsTo(c.EventsTo...); err != nil {
		return badInput(fmt.Errorf("--events-to: %w", err))
	}
	logFindings(p.log, cloud.Findings())
	if err := printExports(p.stdout, openStackVariables(base, region, admin())...); err != nil {
		return err
	}
	if c.State != "" {
		p.log.Info("the cloud is kept in a file", "state", c.State)
	}
	p.log.Info(fmt.Sprintf("the cloud listens on %s", base))
	err = serveHTTP(p.ctx, listener, c.guard(cloud.Handler()), p.log, cloud.EndStreams)
	for _, host := range cloud.HostNames() {
		for _, write := range cloud.Overlaid(host) {
			p.log.Info("recorded, not written to the hardware", "host", host, "write", write)
		}
	}
	return err
}
