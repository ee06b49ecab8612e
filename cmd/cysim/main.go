package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, forget := untilHangup(context.Background())
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	forget()
	os.Exit(status)
}

// untilHangup returns a context that ends when the terminal closes. A terminal that closes may send SIGHUP several times:
// only the first has an effect. SIGHUP stays ignored if it was when the process started, as with nohup.
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}
