package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/requestspec"
)

// cloud is what the flow needs of a cloud, embedded or real.
type cloud interface {
	// title describes the cloud in one line.
	title() string
	// flow returns a flow against the cloud and the client it uses.
	flow(ctx context.Context, config spawn.Config) (*spawn.Flow, *cyborgclient.Client, error)
	// instance is the UUID to use when none was given.
	instance() string
	// flavor returns a flavor that names the profile.
	flavor(profile string) requestspec.Flavor
	// running reports whether instances exist before the flow begins.
	running() bool
	// conversation returns the requests between the services, in order.
	conversation(trace []spawn.StepTrace) []call
	// define registers the started guest with the cloud and checks for leaks; after a
	// failure result is nil.
	define(ctx context.Context, result *spawn.Result) error
	// hint explains why there are no candidates.
	hint(none *spawn.NoCandidatesError) string
	close() error
}

// errLeak: the embedded cloud found leaked resources.
var errLeak = errors.New("left behind")

// spawnOnce runs the flow once.
func spawnOnce(ctx context.Context, opts options, out *output) (result *spawn.Result, err error) {
	config, err := opts.config()
	if err != nil {
		return nil, err
	}
	request, err := opts.request()
	if err != nil {
		return nil, err
	}
	target, err := openCloud(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.close()) }()
	flow, client, err := target.flow(ctx, config)
	if err != nil {
		return nil, err
	}
	profile, err := ensureProfile(ctx, opts, client)
	if err != nil {
		return nil, err
	}
	request.Flavor, request.Running = target.flavor(profile), target.running()
	if request.Instance == "" {
		request.Instance = target.instance()
	}
	out.begin(target, request)
	result, err = flow.Run(ctx, request)
	var none *spawn.NoCandidatesError
	if errors.As(err, &none) {
		out.hint = target.hint(none)
	}
	out.calls = target.conversation(traceOf(result, err))
	return result, errors.Join(err, target.define(ctx, result))
}

func openCloud(ctx context.Context, opts options) (cloud, error) {
	if opts.OSCloud != "" {
		return &realCloud{opts: opts}, nil
	}
	return newEmbedded(ctx, opts)
}

// request reads the files that the flags name.
func (o *options) request() (spawn.Request, error) {
	request := spawn.Request{Instance: o.Instance}
	if o.Domain == "" {
		return request, nil
	}
	data, err := os.ReadFile(o.Domain)
	if err != nil {
		return request, fmt.Errorf("%w: --domain: %w", errUsage, err)
	}
	if len(data) == 0 {
		return request, fmt.Errorf("%w: --domain: %s is empty", errUsage, o.Domain)
	}
	request.Domain = data
	return request, nil
}

func traceOf(result *spawn.Result, err error) []spawn.StepTrace {
	var failure *spawn.Error
	switch {
	case result != nil:
		return result.Trace
	case errors.As(err, &failure):
		return failure.Trace
	}
	return nil
}
