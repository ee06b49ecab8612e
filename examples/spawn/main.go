// Command spawn shows the whole flow from a flavor to a libvirt domain with
// its accelerators: against a simulated cloud inside the process by default,
// against a real one with --cloud.
//
//	go run ./examples/spawn
//	go run ./examples/spawn --profile vgpu --xml -
//	go run ./examples/spawn --sysfs /sys --profile gpu
//	go run ./examples/spawn --fail bind
//	go run ./examples/spawn --profile vgpu --reboot
//	go run ./examples/spawn --cloud sim --service-cloud sim-svc --flavor accel.gpu
//	go run ./examples/spawn --cloud sim --service-cloud sim-svc --delete UUID
//	go run ./examples/spawn --cloud prod --service-cloud nova --instance UUID --profile gpu
//	go run ./examples/spawn --cloud prod --service-cloud nova --instance UUID --release
//
// With --cloud it spawns a new instance, which is no server of Nova's, until --delete; with
// --instance it attaches the accelerators to an existing server. It starts no virtual machine.
//
// Exit status: 0 every accelerator is bound and in the domain (handles of type
// TEST_PCI have no hardware and are listed instead), 2 bad input, 3 no
// candidates, 4 claim, 5 ARQ creation or matching, 6 bind, 7 wait or not Bound,
// 8 domain XML or start of the guest, 9 something leaked.
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as with nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var opts options
	exited := false // after --help
	parser, err := kong.New(&opts,
		kong.Name("spawn"),
		kong.Description("From a flavor with a device profile to a libvirt domain with its accelerators."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { exited = true }),
	)
	if err == nil {
		_, err = parser.Parse(args)
	}
	if exited {
		return 0
	}
	out := newOutput(opts, stdout, stderr)
	if err != nil {
		return exitStatus(out.finish(nil, err))
	}
	return exitStatus(out.finish(spawnOnce(ctx, opts, out)))
}

// spawnOnce runs the flow once.
func spawnOnce(ctx context.Context, opts options, out *output) (result *spawn.Result, err error) {
	config, err := opts.config()
	if err != nil {
		return nil, err
	}
	target, err := openCloud(ctx, opts, config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.close()) }()
	switch {
	case opts.Release:
		out.released = opts.Instance.String()
		return nil, target.flow.ReleaseDevices(ctx, out.released)
	case opts.Delete != uuid.Nil:
		out.released = opts.Delete.String()
		return nil, target.remove(ctx, out.released)
	}
	request, err := target.request(ctx, opts)
	if err != nil {
		return nil, err
	}
	out.begin(target.title, request)
	switch {
	case target.sim == nil && opts.Instance != uuid.Nil:
		return target.flow.AddDevices(ctx, request)
	case target.sim == nil:
		return target.flow.Run(ctx, request)
	}
	if err := opts.Fail.inject(target.sim); err != nil {
		return nil, err
	}
	result, err = target.flow.Run(ctx, request)
	trace := traceOf(result, err)
	if err == nil && opts.Reboot {
		out.rebooted, err = target.guests.reboot(ctx, target.flow, spawn.InstanceOf(request, result))
	}
	out.requests = requests(target.sim)
	var none *spawn.NoCandidatesError
	if errors.As(err, &none) {
		out.hint = explain(target.sim, opts.Sysfs, none.Query)
	}
	return result, errors.Join(err, writeDiagram(target.sim, opts.Diagram, trace), leaked(target.sim))
}

// errLeak is an error of the embedded cloud.
var errLeak = errors.New("leaked")

const statusBadInput = 2 // also for clouds and files that cannot be used

// exitStatus returns the exit status for an error. Leaks take precedence.
func exitStatus(err error) int {
	var failure *spawn.Error
	switch {
	case err == nil:
		return 0
	case errors.Is(err, spawn.ErrLeftover), errors.Is(err, errLeak):
		return 9
	case errors.Is(err, spawn.ErrRequest), !errors.As(err, &failure):
		return statusBadInput
	}
	return cmp.Or(statusOfStep[failure.Step], statusBadInput)
}

var statusOfStep = map[spawn.Step]int{
	spawn.StepCandidates: 3, spawn.StepSelect: 3, spawn.StepClaim: 4, spawn.StepCreate: 5, spawn.StepMatch: 5,
	spawn.StepBind: 6, spawn.StepWait: 7, spawn.StepCompose: 8, spawn.StepStart: 8,
}
