package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
)

// Command runs spawn/delete cycles.
type Command struct {
	Spawns       int    `default:"1000" help:"Number of instances to spawn and delete (${default})."`
	Concurrency  int    `default:"16" help:"Number of instances at a time (${default})."`
	Cloud        string `default:"embedded" placeholder:"NAME" help:"A cloud of clouds.yaml, or embedded: one in this process (${default})."`
	Hosts        int    `default:"8" help:"Number of hosts of the embedded cloud (${default})."`
	Devices      int    `default:"8" help:"Number of GPUs of each host of the embedded cloud (${default})."`
	ServiceCloud string `placeholder:"NAME" help:"Cloud of clouds.yaml whose token is sent as X-Service-Token, which binding needs. Default: the same cloud."`
	Profile      string `default:"gpu" placeholder:"NAME" help:"Device profile (${default})."`
	Output       string `short:"o" enum:"table,json" default:"table" help:"Output format: table or json."`
}

// maxSpawns limits the latencies that are kept.
const maxSpawns = 10_000_000

// Run implements the command.
func (c *Command) Run(ctx context.Context, p *command.Process) error {
	if c.Spawns < 1 || c.Spawns > maxSpawns {
		return command.BadInput(fmt.Errorf("--spawns %d: from 1 to %d", c.Spawns, maxSpawns))
	}
	if c.Concurrency < 1 || c.Concurrency > c.Spawns {
		return command.BadInput(fmt.Errorf("--concurrency %d: from 1 to the number of spawns, %d", c.Concurrency, c.Spawns))
	}
	if err := c.checkSize(); err != nil {
		return command.BadInput(err)
	}
	target, err := c.target(ctx)
	if err != nil {
		return err
	}
	report, err := c.drive(ctx, p, target)
	if err == nil {
		err = report.print(p.Stdout, c.Output)
	}
	if err == nil {
		err = report.failure()
	}
	return errors.Join(err, target.close())
}

// checkSize checks the size of the embedded cloud.
func (c *Command) checkSize() error {
	switch {
	case c.Hosts < 1 || c.Hosts > maxHosts:
		return fmt.Errorf("--hosts %d: from 1 to %d", c.Hosts, maxHosts)
	case c.Devices < 1 || c.Devices > maxDevices:
		return fmt.Errorf("--devices %d: from 1 to %d", c.Devices, maxDevices)
	case c.Cloud != embedded && (c.Hosts != defaultHosts || c.Devices != defaultDevices):
		return errors.New("--hosts and --devices are for the embedded cloud")
	}
	return nil
}

// drive spawns and deletes the instances, and then looks for leaks.
func (c *Command) drive(ctx context.Context, p *command.Process, target *target) (*report, error) {
	report := newReport(p.Stderr, c.Spawns)
	run := uuid.New() // tells the instances from those of other loads
	work := make(chan int)
	var workers sync.WaitGroup
	began := time.Now()
	for range c.Concurrency {
		workers.Go(func() {
			for n := range work {
				report.add(c.cycle(ctx, target, instanceOf(run, n)))
			}
		})
	}
	for n := 0; n < c.Spawns && ctx.Err() == nil; n++ {
		work <- n
	}
	close(work)
	workers.Wait()
	report.took = time.Since(began)
	if ctx.Err() != nil {
		p.Log.Warn("interrupted")
	}
	var err error
	report.leaks, err = target.leaks(context.WithoutCancel(ctx), run, c.Spawns)
	report.Leaks = len(report.leaks)
	return report, err
}

// instanceOf is the uuid of the nth instance of a run.
func instanceOf(run uuid.UUID, n int) string {
	return uuid.NewSHA1(run, binary.BigEndian.AppendUint64(nil, uint64(n))).String()
}

// cycle spawns an instance and deletes it. It returns the time of the spawn alone.
func (c *Command) cycle(ctx context.Context, target *target, instance string) (took time.Duration, err error) {
	began := time.Now()
	result, err := target.flow.Run(ctx, spawn.Request{
		Instance: instance, Order: rotated(instance),
		Flavor: requestspec.Flavor{
			Name: "load", VCPUs: 1, MemoryMB: 512, RootGB: 1,
			ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: c.Profile},
		},
	})
	took = time.Since(began)
	if err != nil {
		return took, err
	}
	if err := target.define(result); err != nil {
		return took, errors.Join(err, target.flow.Release(context.WithoutCancel(ctx), instance))
	}
	if err := target.flow.Release(context.WithoutCancel(ctx), instance); err != nil {
		return took, err
	}
	target.remove(instance)
	return took, nil
}

// rotated makes each instance begin with another candidate, so that they do not all want
// the same device at once.
func rotated(instance string) func([]spawn.Candidate) []spawn.Candidate {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(instance)) // never fails
	return func(candidates []spawn.Candidate) []spawn.Candidate {
		at := int(hash.Sum32() % uint32(max(len(candidates), 1)))
		return append(candidates[at:len(candidates):len(candidates)], candidates[:at]...)
	}
}
