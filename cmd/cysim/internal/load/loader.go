package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
)

// loader spawns instances, several at a time.
type loader struct {
	*Command
	target *target
	run    uuid.UUID // distinguishes the instances of different loads
	next   int       // number of the next instance

	mu   sync.Mutex
	kept []string // the instances that live on
}

func newLoader(c *Command, target *target) *loader {
	return &loader{Command: c, target: target, run: uuid.New()}
}

// instance is the uuid of the nth instance.
func (l *loader) instance(n int) string {
	return uuid.NewSHA1(l.run, binary.BigEndian.AppendUint64(nil, uint64(n))).String()
}

// gone returns the instances that should not have any resources.
func (l *loader) gone() map[string]bool {
	gone := make(map[string]bool, l.next)
	for n := range l.next {
		gone[l.instance(n)] = true
	}
	for _, instance := range l.kept {
		delete(gone, instance)
	}
	return gone
}

// each calls work for so many new instances, until ctx ends.
func (l *loader) each(ctx context.Context, count int, work func(instance string)) {
	instances := make(chan string)
	var workers sync.WaitGroup
	for range min(l.Concurrency, count) {
		workers.Go(func() {
			for instance := range instances {
				work(instance)
			}
		})
	}
	for ; count > 0 && ctx.Err() == nil; count-- {
		instances <- l.instance(l.next)
		l.next++
	}
	close(instances)
	workers.Wait()
}

// fill spawns instances that live until the end, and returns how many there are. It stops at
// the first one that fails.
func (l *loader) fill(ctx context.Context, count int) (filled int, err error) {
	stop, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.each(stop, count, func(instance string) {
		if _, err := l.keep(ctx, instance); err != nil {
			cancel(fmt.Errorf("--fill %d: %w", l.Fill, err))
		}
	})
	return len(l.kept), context.Cause(stop)
}

// sample is the time that an instance took: its spawn in all, and each step.
type sample struct {
	spawn time.Duration
	steps []step
}

type step struct {
	name string
	took time.Duration
}

// stepRelease is the name of the step after the steps of a spawn.
const stepRelease = "release"

// add counts the time of a step, which the hosts that are tried may repeat.
func (s *sample) add(name string, took time.Duration) {
	at := slices.IndexFunc(s.steps, func(known step) bool { return known.name == name })
	if at < 0 {
		at = len(s.steps)
		s.steps = append(s.steps, step{name: name})
	}
	s.steps[at].took += took
}

// keep spawns an instance that lives on.
func (l *loader) keep(ctx context.Context, instance string) (sample, error) {
	s, err := l.spawn(ctx, instance)
	if err == nil {
		l.mu.Lock()
		l.kept = append(l.kept, instance)
		l.mu.Unlock()
	}
	return s, err
}

// cycle spawns an instance, lets it live and deletes it.
func (l *loader) cycle(ctx context.Context, instance string) (sample, error) {
	s, err := l.spawn(ctx, instance)
	if err != nil {
		return s, err
	}
	select {
	case <-time.After(l.Hold):
	case <-ctx.Done(): // ends the life early
	}
	began := time.Now()
	if err := l.target.flow.Release(context.WithoutCancel(ctx), instance); err != nil {
		l.target.failed(err)
		return s, err
	}
	s.add(stepRelease, time.Since(began))
	l.target.remove(instance)
	return s, nil
}

// spawn spawns an instance and defines its guest.
func (l *loader) spawn(ctx context.Context, instance string) (s sample, err error) {
	began := time.Now()
	result, err := l.target.flow.Run(ctx, spawn.Request{
		Instance: instance,
		Flavor: requestspec.Flavor{
			Name: "load", VCPUs: 1, MemoryMB: 512, RootGB: 1,
			ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: l.Profile},
		},
	})
	if err != nil {
		l.target.failed(err)
		return s, err
	}
	s.spawn = time.Since(began)
	for _, done := range result.Trace {
		s.add(done.Step.String(), done.Duration)
	}
	if err := l.target.define(ctx, result); err != nil {
		return s, errors.Join(err, l.target.flow.Release(context.WithoutCancel(ctx), instance))
	}
	return s, nil
}
