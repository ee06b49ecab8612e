package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/session"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// readyCommand asks a server whether it is ready.
type readyCommand struct {
	URL          command.URL   `arg:"" env:"CYSIM_URL" help:"Address of the server, such as http://127.0.0.1:8780. Default: CYSIM_URL."`
	ControlToken string        `placeholder:"TOKEN" help:"Control token of the server, if it has one."`
	Wait         time.Duration `placeholder:"TIME" help:"Retry for this long, such as 30s. Default: one request."`
}

// Help implements kong.HelpProvider.
func (*readyCommand) Help() string {
	return "Exits 0 if the server is ready, and 1 if it is not. Without the control token of a server that has one, and where /_sim/ is off, a server is ready whose services answer."
}

const (
	readyTimeout = 5 * time.Second // of one question
	readyPause   = 100 * time.Millisecond
)

// Run implements the command.
func (c *readyCommand) Run(ctx context.Context, p *command.Process) error {
	p.Doing("waiting for %s", c.URL)
	clock := simhttp.Wall{}
	for deadline := clock.Now().Add(c.Wait); ; {
		err := c.ask(ctx)
		if err == nil {
			_, err = fmt.Fprintln(p.Stdout, "ready")
			return err
		}
		if !clock.Now().Add(readyPause).Before(deadline) {
			return fmt.Errorf("ready: %w", err)
		}
		if err := clock.Wait(ctx, readyPause); err != nil {
			return err
		}
	}
}

// ask asks for the health, and where that is not for everybody, whether the services answer.
func (c *readyCommand) ask(ctx context.Context) error {
	base := strings.TrimSuffix(string(c.URL), "/")
	answer, err := c.get(ctx, base+"/_sim/health")
	switch {
	case err != nil:
		return err
	case answer == http.StatusUnauthorized && c.ControlToken != "":
		return errors.New("401 Unauthorized: the control token is not the server's")
	case answer == http.StatusUnauthorized || answer == http.StatusForbidden:
		if answer, err = c.get(ctx, base+"/"); answer == http.StatusForbidden {
			err = errors.New("403 Forbidden: the server refuses the host of the URL; use localhost or an IP address, or start the server with --listen 0.0.0.0:PORT")
		}
	}
	return err
}

// get returns the status of an answer. An answer that says that the server is not ready is an error.
func (c *readyCommand) get(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, command.BadInput(err)
	}
	if c.ControlToken != "" {
		req.Header.Set(controlTokenHeader, c.ControlToken)
	}
	transport, err := session.Transport(url)
	if err != nil {
		return 0, command.BadInput(err)
	}
	client := http.Client{Transport: transport, Timeout: readyTimeout, CheckRedirect: httpbounds.CheckRedirect}
	defer client.CloseIdleConnections()
	answer, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("%w; is cysim serve running there?", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusNotFound {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // what there is of it
		return 0, errors.New(answer.Status + ": " + command.OneLine(string(text)))
	}
	return answer.StatusCode, nil
}
