package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/internal/plural"
)

// Command runs spawn/delete cycles.
type Command struct {
	Spawns       int           `default:"1000" help:"Number of instances to spawn and delete (${default})."`
	Concurrency  int           `placeholder:"N" help:"Number of instances at a time. Default: 16, or --spawns if that is less."`
	Warmup       *int          `placeholder:"N" help:"Number of instances to spawn and delete before the measured ones. Default: --concurrency."`
	Keep         bool          `help:"Do not delete the instances. With --cloud, -o json lists them; a cloud of cysim serve whose address is in CYSIM_URL has them as guests."`
	Hold         time.Duration `placeholder:"TIME" help:"How long to wait before an instance is deleted, such as 30s. Default: 0."`
	Cloud        string        `default:"embedded" placeholder:"NAME" help:"A cloud of clouds.yaml, or embedded: one in this process (${default})."`
	Hosts        int           `default:"8" help:"Number of hosts of the embedded cloud (${default})."`
	Devices      int           `default:"8" help:"Number of GPUs of each host of the embedded cloud (${default})."`
	Fill         int           `placeholder:"PERCENT" help:"Percentage of the devices of the embedded cloud that are in use before the first measured spawn. Default: 0."`
	ServiceCloud string        `placeholder:"NAME" help:"Cloud of clouds.yaml whose token is sent as X-Service-Token, which binding needs. Default: the same cloud."`
	Profile      string        `default:"gpu" placeholder:"NAME" help:"Device profile (${default})."`
	Output       string        `short:"o" enum:"table,json" default:"table" help:"Output format: table or json."`
}

const defaultConcurrency = 16

// maxSpawns limits the latencies that are kept.
const maxSpawns = 1_000_000

// Run implements the command.
func (c *Command) Run(ctx context.Context, p *command.Process) error {
	signal.Ignore(syscall.SIGPIPE) // a reader that goes away must not end the process between a spawn and its deletion
	if c.Concurrency == 0 {
		c.Concurrency = min(defaultConcurrency, c.Spawns)
	}
	if err := errors.Join(c.checkWork(), c.checkSize()); err != nil {
		return command.BadInput(err)
	}
	target, err := c.target(ctx)
	if err != nil {
		return err
	}
	report, err := c.drive(ctx, p, target)
	if report != nil { // the report is printed even if the check for leaks has failed
		err = errors.Join(err, report.print(p.Stdout, c.Output), cmp.Or(report.failure(), ctx.Err()))
	}
	return errors.Join(err, target.close())
}

// checkWork checks what is to be done.
func (c *Command) checkWork() error {
	switch warmup := c.warmup(); {
	case c.Spawns < 1 || c.Spawns > maxSpawns:
		return fmt.Errorf("--spawns %d: from 1 to %d", c.Spawns, maxSpawns)
	case c.Concurrency < 1 || c.Concurrency > c.Spawns:
		return fmt.Errorf("--concurrency %d: from 1 to the number of spawns, %d", c.Concurrency, c.Spawns)
	case warmup < 0 || warmup > maxSpawns:
		return fmt.Errorf("--warmup %d: from 0 to %d", warmup, maxSpawns)
	case c.Hold < 0:
		return fmt.Errorf("--hold %s is negative", c.Hold)
	case c.Hold > 0 && c.Keep:
		return errors.New("--hold and --keep exclude each other")
	}
	return nil
}

func (c *Command) warmup() int {
	if c.Warmup == nil {
		return c.Concurrency
	}
	return *c.Warmup
}

// checkSize checks the size of the embedded cloud.
func (c *Command) checkSize() error {
	switch {
	case c.Hosts < 1 || c.Hosts > maxHosts:
		return fmt.Errorf("--hosts %d: from 1 to %d", c.Hosts, maxHosts)
	case c.Devices < 1 || c.Devices > maxDevices:
		return fmt.Errorf("--devices %d: from 1 to %d", c.Devices, maxDevices)
	case c.Fill < 0 || c.Fill > 100:
		return fmt.Errorf("--fill %d: from 0 to 100", c.Fill)
	case c.Cloud != embedded && (c.Hosts != defaultHosts || c.Devices != defaultDevices || c.Fill != 0):
		return errors.New("--hosts, --devices and --fill are for the embedded cloud")
	}
	return nil
}

// drive fills the cloud, spawns and deletes the instances, and then checks for leaks. If the
// cloud cannot be filled, there is no report.
func (c *Command) drive(ctx context.Context, p *command.Process, target *target) (*report, error) {
	load := newLoader(c, target)
	report := newReport(p.Stderr, c.Spawns)
	var err error
	if report.Filled, err = load.fill(ctx, c.Hosts*c.Devices*c.Fill/100); err != nil && ctx.Err() == nil {
		return nil, err
	}
	if err == nil {
		if c.Fill > 0 {
			fmt.Fprintf(p.Stderr, "filled with %s\n", plural.Count(report.Filled, "instance"))
		}
		load.each(ctx, c.warmup(), func(instance string) { _, _ = load.cycle(ctx, instance) }) // what fails in it fails again
		began := time.Now()
		load.each(ctx, c.Spawns, func(instance string) {
			if c.Keep {
				report.add(load.keep(ctx, instance))
			} else {
				report.add(load.cycle(ctx, instance))
			}
		})
		report.took = time.Since(began)
	}
	if ctx.Err() != nil {
		p.Log.Warn("interrupted")
	}
	report.Kept = len(load.kept) - report.Filled
	if target.cloud == nil {
		report.Instances = load.kept
	}
	report.Leaked, err = target.leaks(context.WithoutCancel(ctx), load.gone())
	report.Leaks, report.MayBeLeft = len(report.Leaked), target.mayBeLeft()
	return report, err
}
