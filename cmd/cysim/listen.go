package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/servers"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// Limits of the HTTP server. Answers have none: a fault may delay them for any time.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	// grace limits the time that requests have to end after a signal.
	grace = 5 * time.Second
	// firstRequest is how long a new connection may still send a request after a signal.
	firstRequest = 200 * time.Millisecond
)

// listenFlags are the flags of a command that serves.
type listenFlags struct {
	Listen       string   `default:"127.0.0.1:0" placeholder:"ADDRESS" help:"Address to listen on (${default}); port 0 selects a free one. Passwords are public defaults; do not expose this beyond a trusted network."`
	Port         misnamed `hidden:"" help:"Another name of --listen in other servers."`
	Verbose      bool     `short:"v" help:"Log each request."`
	Daemon       bool     `help:"Run in the background, and return when the server is ready. The printed variables name its process and its log."`
	Log          string   `placeholder:"FILE" help:"Append the log of --daemon to this file. Default: a new temporary file."`
	ControlToken string   `placeholder:"TOKEN" help:"Token required below /_sim/, in X-Control-Token or as a password. Without it /_sim/ is off if other machines can reach it."`
	tlsFlags
}

// misnamed is the value of a flag that other servers have for --listen. No value is valid.
type misnamed string

// UnmarshalText implements encoding.TextUnmarshaler, for kong.
func (misnamed) UnmarshalText(text []byte) error {
	return fmt.Errorf("cysim has --listen 127.0.0.1:%s instead", text)
}

// Runs implements command.Service.
func (f *listenFlags) Runs() bool { return !f.Daemon }

// open listens, and warns of what it exposes if other machines can reach it.
func (f listenFlags) open(ctx context.Context, log *slog.Logger, exposes string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(f.Listen)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	}
	if err != nil {
		return nil, command.BadInput(fmt.Errorf("--listen: %w", err))
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", f.Listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w; port 0 selects a free one", err)
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
func baseURL(listener net.Listener, id *identity) string {
	scheme := "http://"
	if id != nil {
		scheme = "https://"
	}
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return scheme + listener.Addr().String() // not a TCP address
	}
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + net.JoinHostPort(id.name(host), port)
}

// service is the service of a command.
type service struct {
	name    string
	line    *kong.Context
	handler http.Handler
	// facts are further lines of the banner of a server with this URL.
	facts func(base string) []string
	// prepare gets the URL of the server, and returns the environment that is printed when the
	// service is ready.
	prepare func(ctx context.Context, base string) (environment, error)
	// exposes is why other machines should not reach it, "" for no reason.
	exposes string
	// early serves the handler while prepare runs, which waits for other services.
	early bool
	// identity is the server's certificate; nil means plain HTTP.
	identity *identity
	// ending is called when a signal ends the process.
	ending []func()
}

// run listens and serves until the context ends.
func (f listenFlags) run(ctx context.Context, p *command.Process, s service) error {
	listener, err := f.open(ctx, p.Log, s.exposes)
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := s.identity.write(); err != nil {
		return err
	}
	defer s.identity.remove()
	s.handler = f.guard(s.handler, s.identity)
	if f.Verbose {
		s.handler = logged(s.handler, p.Log)
	}
	base := baseURL(listener, s.identity)
	if withdraw, err := servers.Announce(s.line.Selected().Name, base, simhttp.Wall{}.Now()); err == nil { // else cysim list fails by the same cause
		defer withdraw()
	}
	prepare := func(ctx context.Context) error {
		e, err := s.prepare(ctx, base)
		if err != nil {
			return err
		}
		if file := s.identity.caFile(); file != "" {
			e.set = append(e.set, variable{"OS_CACERT", file})
		}
		return printEnvironment(p.Stdout, e)
	}
	if s.early {
		return runEarly(ctx, p, listener, s, prepare)
	}
	if err := prepare(ctx); err != nil {
		return err
	}
	printBanner(p.Stderr, s.name, base, s.line, s.facts(base)...)
	return serveHTTP(ctx, listener, s, p.Log)
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
	base := baseURL(listener, s.identity)
	printBanner(p.Stderr, s.name, base, s.line, "not ready yet: see the log, or cysim ready --wait 60s "+base)
	err := serveHTTP(serving, listener, s, p.Log)
	end()
	return cmp.Or(err, <-prepared)
}

// serveHTTP serves until the context ends. It then calls the functions of ending, and
// gives the current requests some time to end. It speaks HTTP/1.1 with TLS, too, so that faults of connections are
// the same.
func serveHTTP(ctx context.Context, listener net.Listener, s service, log *slog.Logger) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelError),
	}
	for _, f := range append(s.ending, followSilent(server)) {
		server.RegisterOnShutdown(f)
	}
	ended := make(chan error, 1)
	serve := server.Serve
	if s.identity != nil {
		server.TLSConfig, server.Protocols = s.identity.config(), new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	go func() { ended <- serve(listener) }()
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

// followSilent returns a function that closes the connections of a server that have not sent a request yet. Browsers open
// such connections in advance, and http.Server.Shutdown would wait 5 s for each.
func followSilent(server *http.Server) (end func()) {
	var silent sync.Map
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateNew {
			silent.Store(conn, nil)
		} else {
			silent.Delete(conn)
		}
	}
	return func() {
		time.AfterFunc(firstRequest, func() {
			silent.Range(func(conn, _ any) bool {
				go conn.(net.Conn).Close() // with TLS this takes a while
				return true
			})
		})
	}
}
