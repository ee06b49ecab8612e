package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/daemon"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// cyborgCommand serves Cyborg alone. A flag of Config overrides the field of the model.
type cyborgCommand struct {
	listenFlags   `group:"server"`
	serviceFlags  `group:"services"`
	faultsFlag    `group:"faults"`
	State         string `group:"state" placeholder:"FILE" help:"Keep requests, devices, device profiles and faults in this file, and continue from it. Each change is on the disk before it is answered."`
	Model         string `group:"cloud" placeholder:"FILE" help:"Hosts and their devices, in JSON. Default: two hosts with a mixed set of devices."`
	hardwareFlags `group:"hardware"`

	Config fakecyborg.Config `embed:"" group:"cyborg-flags"`
}

// Run implements the command.
func (c *cyborgCommand) Run(ctx context.Context, p *command.Process, line *kong.Context) error {
	if c.Daemon {
		return daemon.Start(ctx, p, line.Args, c.Log)
	}
	drivers := c.drivers(p.Log)
	model, err := c.model(ctx, line, drivers, p.Log)
	if err != nil {
		return err
	}
	described, err := fakecyborg.New(model.Cyborg)
	if err != nil {
		return command.BadInput(err)
	}
	identity, err := c.identity("")
	if err != nil {
		return err
	}
	services, err := c.services()
	if err != nil {
		return err
	}
	var locks treeLocks
	defer func() { locks.release() }()
	if err := locks.take(model.Hosts); err != nil {
		return err
	}
	faults, err := c.newSet(ctx, model.Cyborg.Seed, fakecyborg.Operations())
	if err != nil {
		return err
	}
	agents, err := model.Agents(drivers)
	if err != nil {
		return command.BadInput(err)
	}
	kept, err := openCyborgState(c.State, model, agents)
	if err != nil {
		return errors.Join(err, agents.Close())
	}
	s := &standalone{log: p.Log, model: model, services: services, agents: agents, faults: faults, setFaults: c.set, kept: kept}
	s.waiting.begin(agents.Hosts)
	exposes := trusting
	if c.Auth != "none" {
		exposes = ""
	}
	err = c.run(ctx, p, service{
		name: "Cyborg", line: line, exposes: exposes, identity: identity, handler: s.control(described.Routes()), prepare: s.prepare, early: true,
	})
	return errors.Join(err, s.close())
}

// model is the model of the file, overridden by the flags.
func (c *cyborgCommand) model(ctx context.Context, line *kong.Context, drivers simcloud.Option, log *slog.Logger) (simcloud.Model, error) {
	model, err := readModel(ctx, c.Model, drivers)
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
	model.Cyborg.Collation = cmp.Or(model.Cyborg.Collation, model.Collation)
	if model.DeviceProfiles == nil && c.Sysfs == "" { // on a real machine the operator defines profiles
		model.DeviceProfiles = simcloud.DefaultModel().DeviceProfiles
	}
	return c.apply(ctx, model, log)
}
