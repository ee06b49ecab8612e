package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Limits of the HTTP server. Answers have no limit of their own: a fault may
// delay them for as long as it says.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	// grace is how long requests may take to end after a signal.
	grace = 5 * time.Second
)

// listenFlags say where a command listens.
type listenFlags struct {
	Listen       string `default:"127.0.0.1:0" placeholder:"ADDRESS" help:"Address to listen on (${default}); port 0 takes a free one. Passwords are known: think before other machines can reach it."`
	ControlToken string `env:"CYSIM_CONTROL_TOKEN" placeholder:"TOKEN" help:"Ask for this token below /_sim/: in X-Control-Token, or as a password (CYSIM_CONTROL_TOKEN). Without it /_sim/ is off where other machines can reach it."`
}

// open listens, and warns when other machines can reach it.
func (f listenFlags) open(p *process) (net.Listener, error) {
	host, _, err := net.SplitHostPort(f.Listen)
	if err != nil {
		return nil, badInput(fmt.Errorf("--listen: %w", err))
	}
	var config net.ListenConfig
	listener, err := config.Listen(p.ctx, "tcp", f.Listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if !isLoopback(host) {
		p.log.Warn("other machines can reach this address, and the passwords are known", "address", listener.Addr())
	}
	return listener, nil
}

// isLoopback reports whether only this machine can reach a listener on the
// host. Other names than localhost are not looked up: what they mean may change.
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

// serveHTTP answers requests until the context ends, then lets those under way
// finish for a while, after it has called what is to be done then.
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
		_ = server.Close() // connections are all that is left to lose
	}
	<-ended
	return nil
}

// checkURL tells whether a flag holds an absolute HTTP URL.
func checkURL(flag, text string) error {
	parsed, err := url.Parse(text)
	if err != nil {
		return badInput(fmt.Errorf("--%s: %w", flag, err))
	}
	if (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" {
		return badInput(fmt.Errorf("--%s %s: not an http:// or https:// URL", flag, text))
	}
	return nil
}
