package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/daemon"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/simcloud"
)

// serveCommand serves a whole cloud. The flags of World override the fields of the model in
// the file.
type serveCommand struct {
	listenFlags   `group:"server"`
	faultsFlag    `group:"faults"`
	clockFlags    `group:"state"`
	stateFlags    `group:"state"`
	CloudsYAML    string             `group:"server" name:"clouds-yaml" placeholder:"FILE" help:"Write the clouds sim (admin), sim-demo (member) and sim-svc (service) to this clouds.yaml, and print OS_CLIENT_CONFIG_FILE instead of the variables of one account."`
	EventsTo      []command.QueryURL `group:"nova" placeholder:"URL" sep:"none" help:"Forward the events for Nova to this URL instead of that of --catalog, with a token of the user cyborg (roles admin and service). The request is retried after a refused connection and after 502, 503 and 504. May be repeated."`
	AgentLoop     bool               `group:"cloud" help:"Report from the agents every minute, as real agents do, instead of only at the start."`
	Model         string             `group:"cloud" placeholder:"FILE" help:"Model of the cloud, in JSON. Default: two hosts with a mixed set of devices."`
	scaleFlags    `group:"cloud"`
	hardwareFlags `group:"hardware"`

	World simcloud.Model `embed:"" group:"cloud"`
}

// Help implements kong.HelpProvider.
func (*serveCommand) Help() string {
	return "Prints shell variables for OpenStack's clients when it is ready, and serves until it receives a signal. Variables of its environment that would direct a client elsewhere, such as OS_CLOUD or OS_TOKEN, are unset. The prefixes cyborg- and placement- of flags are optional where the short name is unambiguous."
}

// Run implements the command.
func (c *serveCommand) Run(ctx context.Context, p *command.Process, line *kong.Context) error {
	if c.Daemon {
		return daemon.Start(ctx, p, line.Args, c.Log)
	}
	drivers := c.drivers(p.Log)
	p.Doing("reading the model")
	model, err := c.model(ctx, line, drivers, p.Log)
	if err != nil {
		return err
	}
	if c.CloudsYAML != "" {
		if err := checkOwnFile("clouds-yaml", c.CloudsYAML); err != nil {
			return err
		}
	}
	identity, err := c.identity(c.CloudsYAML)
	if err != nil {
		return err
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	var locks treeLocks
	defer func() { locks.release() }()
	p.Doing("building a cloud")
	if model.Hosts != nil {
		p.Doing("building a cloud of %s", plural.Count(len(model.Hosts), "host"))
	}
	cloud, err := c.cloud(ctx, model, append(options, drivers, simcloud.WithLogger(p.Log)), locks.take)
	if err != nil {
		return command.BadInput(err)
	}
	if err := c.set(ctx, cloud.Faults()); err != nil {
		return errors.Join(err, cloud.Close())
	}
	err = c.run(ctx, p, service{
		name: "the cloud", line: line, facts: func(base string) []string { return c.facts(base, cloud.Model()) },
		exposes: "passwords are public defaults", handler: cloud.Handler(), ending: []func(){cloud.EndStreams}, identity: identity,
		prepare: func(_ context.Context, base string) (environment, error) {
			return c.prepare(p, cloud, base, identity.caFile())
		},
	})
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
func (c *serveCommand) model(ctx context.Context, line *kong.Context, drivers simcloud.Option, log *slog.Logger) (_ simcloud.Model, err error) {
	if c.World, err = readModel(ctx, c.Model, drivers); err != nil {
		return c.World, err
	}
	if _, err := line.Apply(); err != nil {
		return c.World, command.BadInput(err)
	}
	if c.Sysfs == "" {
		c.World, err = c.scaleFlags.apply(c.World)
	} else if c.scaleFlags != (scaleFlags{}) {
		err = command.BadInput(errors.New("--sysfs has the hardware of one host: --hosts, --gpus and --vgpus cannot be combined with it"))
	}
	if err != nil {
		return c.World, err
	}
	return c.hardwareFlags.apply(ctx, c.World, log)
}

// facts are lines of the banner.
func (c *serveCommand) facts(base string, model simcloud.Model) []string {
	page := base + "/_sim/"
	if c.ControlToken == "" && c.isRemote() {
		page = "off without --control-token, because other machines can reach it"
	}
	list := []string{"status page  " + page, "cloud        " + plural.Count(len(model.Hosts), "host") + ", " + plural.Count(len(model.DeviceProfiles), "device profile")}
	if c.CloudsYAML != "" {
		var names []string
		for _, a := range accounts() {
			names = append(names, a.cloud+" (user "+a.user+")")
		}
		list = append(list, "clouds.yaml  "+c.CloudsYAML+": "+strings.Join(names, ", "))
	}
	return list
}

// prepare writes clouds.yaml, forwards events and logs findings. It returns the environment of
// a shell for the cloud.
func (c *serveCommand) prepare(p *command.Process, cloud *simcloud.Cloud, base, caFile string) (environment, error) {
	region := cloud.Model().Region
	if c.CloudsYAML != "" {
		if err := writeCloudsFile(c.CloudsYAML, base, region, caFile, cloud.PasswordOf); err != nil {
			return environment{}, err
		}
	}
	var targets []string
	for _, target := range c.EventsTo {
		targets = append(targets, string(target))
	}
	if len(targets) > 0 { // else the URLs of the catalog
		if err := cloud.ForwardEventsTo(targets...); err != nil {
			return environment{}, command.BadInput(fmt.Errorf("--events-to: %w", err))
		}
	}
	if slices.ContainsFunc(cloud.Model().Hosts, func(h simcloud.Host) bool { return h.Root == simcloud.RootNova }) {
		p.Log.Info("the agents wait for nova-compute to make the resource providers of their hosts")
	}
	logFindings(p.Log, cloud.Findings())
	login, err := c.login(base, region, cloud.PasswordOf(admin().user))
	return environment{set: append(login, variable{"CYSIM_URL", base}), unset: clientVariablesIn(os.Environ())}, err
}

// login are the variables with which OpenStack's clients find their account: the file with all accounts, or the
// administrator. Both together would be the administrator, because clients prefer variables to the file.
func (c *serveCommand) login(base, region, password string) ([]variable, error) {
	if c.CloudsYAML == "" {
		return openStackVariables(base, region, admin(), password), nil
	}
	file, err := filepath.Abs(c.CloudsYAML)
	return []variable{{"OS_CLIENT_CONFIG_FILE", file}}, err
}
