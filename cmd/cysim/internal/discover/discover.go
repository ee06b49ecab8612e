package discover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/cyborgconf"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/internal/osloconf"
)

// Command shows what Cyborg's drivers find in a host.
type Command struct {
	Sysfs        string        `placeholder:"DIR" default:"/sys" help:"Mount point of the sysfs to read, or a copy of another machine's sysfs (${default})."`
	DriverConfig string        `placeholder:"FILE" help:"Configuration of the drivers: a cyborg.conf, or JSON. Default: all drivers except fake_driver, with their defaults."`
	NovaConf     string        `placeholder:"FILE" help:"A nova.conf: list the devices that are configured for Nova too, and exit with status 3 if there are any."`
	Watch        time.Duration `placeholder:"TIME" help:"Repeat the discovery at this interval, such as 10s, and print the changes."`
	Output       string        `short:"o" enum:"table,json,driver-objects" default:"table" help:"Output format: table, json, or driver-objects: the objects that upstream's drivers return."`
}

// Help implements kong.HelpProvider.
func (*Command) Help() string {
	return "Only reads, and does not need root. Without --driver-config these drivers run: " + strings.Join(builtin.Hardware(), ", ") +
		". Without a configuration nvidia_gpu_driver offers no vGPUs, intel_nic_driver reports no networks, and pci_driver and mdev_driver offer nothing." +
		" inspur_nvme_ssd_driver offers the disks of [nvme] device_spec that are empty according to the records of udev in run/udev/data next to the sysfs." +
		" Exit status: 0 success, also without devices; 1 failure; 2 bad flag, file or directory; 3 a device is configured for both Cyborg and Nova."
}

// Run implements the command.
func (c *Command) Run(ctx context.Context, p *command.Process) error {
	if c.Watch < 0 || c.Watch > 0 && (c.Output != "table" || c.NovaConf != "") {
		return command.BadInput(errors.New("--watch: it needs a positive interval, and excludes -o and --nova-conf"))
	}
	config, err := c.config(ctx)
	if err != nil {
		return err
	}
	var nova *novaClaims
	if c.NovaConf != "" {
		if nova, err = command.ParseFile(ctx, "nova-conf", c.NovaConf, osloconf.MaxSize, parseNovaConf); err != nil {
			return err
		}
	}
	tree, err := sysfs.OpenDir(c.Sysfs, sysfs.DirOptions{})
	if err != nil {
		return command.BadInput(fmt.Errorf("--sysfs: %w", err))
	}
	defer tree.Close()
	known, err := registry(p.Log, false)
	if err != nil {
		return err
	}
	drivers, err := known.New(config, tree)
	if err != nil {
		return command.BadInput(fmt.Errorf("%s: %w", c.configSource(), err))
	}
	p.Doing("asking the drivers about %s", c.Sysfs)
	if err := c.discover(ctx, p, tree, config, drivers, nova); err != nil || c.Watch == 0 {
		return err
	}
	return c.watch(ctx, p.Stdout, tree, drivers)
}

// configSource names the configuration in errors.
func (c *Command) configSource() string {
	if c.DriverConfig == "" {
		return "the default configuration"
	}
	return "--driver-config " + c.DriverConfig
}

// config is ReadConfig, with this machine as the host.
func (c *Command) config(ctx context.Context) (config builtin.Config, err error) {
	if config, err = ReadConfig(ctx, c.DriverConfig, c.Sysfs); err == nil && config.Host == "" {
		config.Host, err = os.Hostname()
	}
	return config, err
}

// ReadConfig reads the configuration of the drivers from a file, if there is one, and adds the
// default drivers and the block devices in use, for the sysfs at dir.
func ReadConfig(ctx context.Context, file, dir string) (config builtin.Config, err error) {
	if file != "" {
		if config, err = command.ParseFile(ctx, "driver-config", file, cyborgconf.MaxSize, cyborgconf.Parse); err != nil {
			return config, err
		}
	}
	if config.EnabledDrivers == nil {
		config.EnabledDrivers = builtin.Hardware()
	}
	if config.Mounts == nil {
		config.Mounts = mounts(dir)
	}
	return config, nil
}

// discover runs the drivers, compares their reports with Nova's claims, and writes the
// result.
func (c *Command) discover(ctx context.Context, p *command.Process, tree driver.Tree, config builtin.Config, drivers []driver.Driver, nova *novaClaims) error {
	reports := driver.DiscoverAll(ctx, drivers)
	if err := ctx.Err(); err != nil {
		return err
	}
	var both []doubleClaim
	var err error
	if nova != nil {
		cyborg := cyborgClaims{drivers: drivers, vgpus: vgpuAddresses(config.NVIDIA), configured: c.DriverConfig != ""}
		if config.PCI != nil {
			cyborg.whitelist = config.PCI.PassthroughWhitelist
		}
		if both, err = findDoubleClaims(ctx, tree, cyborg, nova, reports); err != nil {
			return err
		}
	}
	found := newDiscovery(drivers, reports)
	found.addPlaces(tree)
	switch c.Output {
	case "json":
		err = command.WriteJSON(p.Stdout, found)
	case "driver-objects":
		err = writeObjects(p, reports, found.Problems)
	default:
		if err = errors.Join(found.findUnclaimed(ctx, tree, reports), found.findVGPUTypes(ctx, tree, reports)); err == nil {
			err = found.writeTables(p.Stdout, c.Sysfs)
		}
	}
	if err != nil {
		return err
	}
	return claimedTwice(both)
}
