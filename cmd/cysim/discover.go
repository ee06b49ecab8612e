package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// discoverCommand shows what Cyborg's drivers find in a host.
type discoverCommand struct {
	Sysfs    string `placeholder:"DIR" default:"/sys" help:"Mount point of the sysfs to look at; a copy of another machine's works (${default})."`
	Config   string `placeholder:"FILE" help:"Configuration of the drivers: a cyborg.conf, or JSON; default: all drivers but fake_driver, with their defaults."`
	NovaConf string `placeholder:"FILE" help:"A nova.conf: name what Nova claims, too, and end with status 3 if there is any."`
	Output   string `short:"o" enum:"table,json" default:"table" help:"Form of the output: table or json."`
}

// Help tells what a flag has no room for.
func (*discoverCommand) Help() string {
	return "Only reads, and needs no root. Without --config these drivers look: " + strings.Join(realDrivers(), ", ") +
		". Then nvidia_gpu_driver divides no card, intel_nic_driver knows no networks, and pci_driver and mdev_driver offer nothing, for they offer what is listed only." +
		" What is mounted is known for the live /sys only; in a copy a disk with partitions counts as mounted." +
		" Exit status: 0 the search was done, whatever it found; 1 it could not be done; 2 bad flag, file or directory; 3 Cyborg and Nova both claim a device."
}

// Run implements the command.
func (c *discoverCommand) Run(p *process) error {
	config, err := c.config()
	if err != nil {
		return err
	}
	var nova *novaClaims
	if c.NovaConf != "" {
		if nova, err = readNovaConf(c.NovaConf); err != nil {
			return err
		}
	}
	tree, err := sysfs.OpenDir(c.Sysfs, sysfs.DirOptions{})
	if err != nil {
		return badInput(fmt.Errorf("--sysfs: %w", err))
	}
	defer tree.Close()
	drivers, err := builtin.New(config, tree)
	if err != nil {
		return badInput(fmt.Errorf("%s: %w", c.source(), err))
	}
	return c.look(p, tree, config, drivers, nova)
}

// source is where the configuration comes from.
func (c *discoverCommand) source() string {
	if c.Config == "" {
		return "the default configuration"
	}
	return "--config " + c.Config
}

// config is that of the file, with what only this machine knows filled in.
func (c *discoverCommand) config() (config builtin.Config, err error) {
	if c.Config != "" {
		if config, err = readCyborgConf(c.Config); err != nil {
			return config, err
		}
	}
	if config.EnabledDrivers == nil {
		config.EnabledDrivers = realDrivers()
	}
	if config.Host == "" {
		if config.Host, err = os.Hostname(); err != nil {
			return config, err
		}
	}
	if config.Mounts == nil && isLive(c.Sysfs) {
		config.Mounts = hostMounts()
	}
	return config, err
}

// look lets the drivers look, compares with Nova, and writes.
func (c *discoverCommand) look(p *process, tree driver.Tree, config builtin.Config, drivers []driver.Driver, nova *novaClaims) error {
	reports, err := driver.DiscoverAll(p.ctx, drivers)
	failed := new(driver.DiscoveryError)
	if err != nil && !errors.As(err, &failed) || p.ctx.Err() != nil {
		return err
	}
	var twice claimError
	if nova != nil {
		cyborg := cyborgClaims{drivers, config.PCI.PassthroughWhitelist, vgpuAddresses(config.NVIDIA), c.Config != ""}
		if twice, err = searchClaims(p.ctx, tree, cyborg, nova, reports); err != nil {
			return err
		}
	}
	found := newDiscovery(drivers, reports, failed.Failed)
	if c.Output != "json" {
		if err := found.findNobodys(p.ctx, tree); err != nil {
			return err
		}
	}
	if err := c.write(p, found); err != nil {
		return err
	}
	if len(twice) > 0 {
		return twice
	}
	return nil
}

func (c *discoverCommand) write(p *process, found discovery) error {
	if c.Output == "json" {
		return found.writeJSON(p.stdout)
	}
	return found.writeTables(p.stdout, c.Sysfs)
}
