package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
)

// loadCommand drives whole spawns and deletes.
type loadCommand struct {
	Spawns       int    `default:"1000" help:"How many instances get accelerators and give them back (${default})."`
	Concurrency  int    `default:"16" help:"How many at once (${default})."`
	Cloud        string `default:"embedded" placeholder:"NAME" help:"A cloud of clouds.yaml, or embedded: one of 8 hosts with 8 GPUs each, in this process (${default})."`
	ServiceCloud string `placeholder:"NAME" help:"Cloud of clouds.yaml whose token goes into X-Service-Token, which binding needs; default: the cloud itself."`
	Profile      string `default:"gpu" placeholder:"NAME" help:"Device profile (${default})."`
	Output       string `short:"o" enum:"table,json" default:"table" help:"table or json."`
}

// errFailedSpawns is the end of a load in which some spawns failed.
var errFailedSpawns = errors.New("spawns failed")

// maxSpawns bounds what a load remembers.
const maxSpawns = 10_000_000

// Run implements the command.
func (c *loadCommand) Run(p *process) error {
	if c.Spawns < 1 || c.Spawns > maxSpawns {
		return badInput(fmt.Errorf("--spawns %d: from 1 to %d", c.Spawns, maxSpawns))
	}
	if c.Concurrency < 1 || c.Concurrency > c.Spawns {
		return badInput(fmt.Errorf("--concurrency %d: from 1 to the number of spawns, %d", c.Concurrency, c.Spawns))
	}
	target, err := c.target(p.ctx)
	if err != nil {
		return err
	}
	report, err := c.drive(p, target)
	if err == nil {
		err = report.print(p.stdout, c.Output)
	}
	if err == nil {
		err = report.verdict()
	}
	return errors.Join(err, target.close())
}

// drive spawns and deletes, and then counts what is left.
func (c *loadCommand) drive(p *process, target *loadTarget) (*loadReport, error) {
	report := newLoadReport(c.Spawns)
	bar := newProgress(p.stderr, c.Spawns)
	run := uuid.New() // instances of another load are not ours
	work := make(chan int)
	var workers sync.WaitGroup
	began := time.Now()
	for range c.Concurrency {
		workers.Go(func() {
			for n := range work {
				report.add(c.one(p.ctx, target, instanceOf(run, n)))
				bar.step()
			}
		})
	}
	for n := 0; n < c.Spawns && p.ctx.Err() == nil; n++ {
		work <- n
	}
	close(work)
	workers.Wait()
	report.took = time.Since(began)
	bar.done()
	if err := p.ctx.Err(); err != nil {
		// Whoever was interrupted has given back what it had; what is left tells the check below.
		p.log.Warn("interrupted")
	}
	leaks, err := target.leaks(context.WithoutCancel(p.ctx), run, c.Spawns)
	report.Leaks = len(leaks)
	report.leaks = leaks
	return report, err
}

// instanceOf names an instance.
func instanceOf(run uuid.UUID, n int) string {
	return uuid.NewSHA1(run, binary.BigEndian.AppendUint64(nil, uint64(n))).String()
}

// one spawns an instance and deletes it. Only the spawn's time counts.
func (c *loadCommand) one(ctx context.Context, target *loadTarget, instance string) (took time.Duration, err error) {
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

// rotated lets each instance begin with another candidate, so that not all want the same
// device at once.
func rotated(instance string) func([]spawn.Candidate) []spawn.Candidate {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(instance)) // never fails
	return func(candidates []spawn.Candidate) []spawn.Candidate {
		at := int(hash.Sum32() % uint32(max(len(candidates), 1)))
		return append(candidates[at:len(candidates):len(candidates)], candidates[:at]...)
	}
}
