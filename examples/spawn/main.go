// Command spawn shows the whole flow from a flavor to a libvirt domain with
// its accelerators: against a simulated cloud inside the process by default,
// against a real one with --os-cloud.
//
//	go run ./examples/spawn
//	go run ./examples/spawn --profile vgpu --xml -
//	go run ./examples/spawn --sysfs /sys --profile gpu
//	go run ./examples/spawn --os-cloud prod --service-cloud nova --instance UUID --profile gpu
//
// Exit status: 0 every accelerator is bound and in the domain (handles of type
// TEST_PCI have no hardware and are listed instead), 2 bad input, 3 no
// candidates, 4 claim, 5 ARQ creation or matching, 6 bind, 7 wait or not Bound,
// 8 domain XML, 9 something was left behind.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run runs the program and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, status, done := parse(args, stdout, stderr)
	if done {
		return status
	}
	out := newOutput(opts, stdout, stderr)
	result, err := spawnOnce(ctx, opts, out)
	if err := out.finish(result, err); err != nil {
		return out.failed(err)
	}
	return exitStatus(err)
}
