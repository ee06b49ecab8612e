package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// Limits of the HTTP server. Answers have none: a fault may delay them for any time.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	// grace limits the time that requests have to end after a signal.
	grace = 5 * time.Second
)

// listenFlags are the flags of a command that serves.
type listenFlags struct {
	Listen       string `default:"127.0.0.1:0" placeholder:"ADDRESS" help:"Address to listen on (${default}); port 0 selects a free one. Passwords are public defaults; do not expose this beyond a trusted network."`
	ControlToken string `env:"CYSIM_CONTROL_TOKEN" placeholder:"TOKEN" help:"Token required below /_sim/, in X-Control-Token or as a password. Without it /_sim/ is off if other machines can reach it."`
}

// open listens, and warns of what it exposes if other machines can reach it.
func (f listenFlags) open(ctx context.Context, log *slog.Logger, exposes string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(f.Listen)
	if err != nil {
		return nil, command.BadInput(fmt.Errorf("--listen: %w", err))
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", f.Listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if exposes != "" && !isLoopback(host) {
		log.Warn("other machines can reach this address, and "+exposes, "address", listener.Addr())
	}
	return listener, nil
}

// isLoopback reports whether only this machine can reach a listener on the host. Names
// other than localhost are not resolved, because their addresses may change.
func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// baseURL is where programs on this machine reach the listener.
func baseURL(listener net.Listener) string {
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return "http://" + listener.Addr().String() // not a TCP address
	}
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// service is what a command serves.
type service struct {
	name    string
	handler http.Handler
	// prepare gets the URL of the server, and returns the variables that are printed when the
	// service is ready.
	prepare func(ctx context.Context, base string) ([]variable, error)
	// exposes is why other machines should not reach it, "" for no reason.
	exposes string
	// early serves the handler while prepare runs, which waits for other services.
	early bool
	// ending is called when the process is told to end.
	ending []func()
}

// run listens and serves until the context ends.
func (f listenFlags) run(ctx context.Context, p *command.Process, s service) error {
	listener, err := f.open(ctx, p.Log, s.exposes)
	if err != nil {
		return err
	}
	defer listener.Close()
	base := baseURL(listener)
	prepare := func(ctx context.Context) error {
		variables, err := s.prepare(ctx, base)
		if err != nil {
			return err
		}
		return printExports(p.Stdout, variables...)
	}
	if s.early {
		return runEarly(ctx, p, listener, s, prepare)
	}
	if err := prepare(ctx); err != nil {
		return err
	}
	p.Log.Info(s.name + " listens on " + base)
	return serveHTTP(ctx, listener, s.handler, p.Log, s.ending...)
}

// runEarly serves while the service is prepared, whose failure ends it.
func runEarly(ctx context.Context, p *command.Process, listener net.Listener, s service, prepare func(context.Context) error) error {
	serving, end := context.WithCancel(ctx)
	defer end()
	prepared := make(chan error, 1)
	go func() {
		err := prepare(serving)
		if err != nil {
			end()
		} else {
			p.Log.Info(s.name + " is ready")
		}
		prepared <- err
	}()
	p.Log.Info(s.name + " listens on " + baseURL(listener) + ", and is not ready yet")
	err := serveHTTP(serving, listener, s.handler, p.Log, s.ending...)
	end()
	return cmp.Or(err, <-prepared)
}

// serveHTTP serves until the context ends. It then calls the functions of ending, and
// gives the current requests some time to end.
func serveHTTP(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger, ending ...func()) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelError),
	}
	for _, f := range ending {
		server.RegisterOnShutdown(f)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := server.Shutdown(bounded); errors.Is(err, context.DeadlineExceeded) {
		log.Warn("requests were cut off", "after", grace)
		_ = server.Close() // only connections can be lost now
	}
	<-ended
	return nil
}
