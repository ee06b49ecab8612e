package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/internal/session"
	"github.com/gocyborg/gocyborg/simcloud"
)

// checkCommand lists the leaks of a cloud that serve runs.
type checkCommand struct {
	URL          command.URL `arg:"" env:"CYSIM_URL" help:"Address of the cloud, such as http://127.0.0.1:8780. Default: CYSIM_URL."`
	ControlToken string      `placeholder:"TOKEN" help:"Control token of the cloud, if it has one."`
	GuestsFrom   string      `enum:",nova" default:"" placeholder:"nova" help:"nova: the cloud asks the compute API of its --catalog which servers exist. Default: that of cysim serve."`
	Output       string      `short:"o" enum:"text,json" default:"text" help:"Output format: text, one sentence per leak; json, a list with kind, subject and text."`
}

// answerTimeout limits the time of a request to a service.
const answerTimeout = time.Minute

// Run implements the command.
func (c *checkCommand) Run(ctx context.Context, p *command.Process) error {
	leaks, err := c.leaks(ctx)
	if err != nil {
		return err
	}
	err = command.WriteList(p.Stdout, c.Output, leaks, func(l simcloud.Leak) string { return l.Text })
	switch {
	case err != nil:
	case len(leaks) > 0:
		err = command.Leaked(plural.Count(len(leaks), "leak"))
	case c.Output == "text":
		_, err = fmt.Fprintln(p.Stdout, "nothing leaked")
	}
	return err
}

// leaks asks the cloud.
func (c *checkCommand) leaks(ctx context.Context) ([]simcloud.Leak, error) {
	url := strings.TrimSuffix(string(c.URL), "/") + "/_sim/leaks"
	if c.GuestsFrom != "" {
		url += "?guests_from=" + c.GuestsFrom
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, command.BadInput(fmt.Errorf("<url>: %w", err))
	}
	if c.ControlToken != "" {
		req.Header.Set(controlTokenHeader, c.ControlToken)
	}
	transport, err := session.Transport(url)
	if err != nil {
		return nil, command.BadInput(err)
	}
	client := httpbounds.Client(http.Client{Transport: transport, Timeout: answerTimeout}, httpbounds.AnswerLimit)
	answer, err := client.Do(req)
	if errors.Is(err, httpbounds.ErrPage) {
		return nil, fmt.Errorf("list leaks: %w: not a cloud of cysim serve", err)
	}
	if err != nil {
		return nil, fmt.Errorf("list leaks: %w; is cysim serve running there?", err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("list leaks: GET %s: %w", url, err)
	}
	if answer.StatusCode == http.StatusUnauthorized {
		return nil, command.BadInput(errors.New("list leaks: the cloud requires its --control-token"))
	}
	isOff := answer.StatusCode == http.StatusForbidden && bytes.Contains(data, []byte("--control-token"))
	if isOff || answer.StatusCode == http.StatusBadGateway || answer.StatusCode == http.StatusConflict {
		return nil, fmt.Errorf("list leaks: %s", bytes.TrimSpace(data))
	}
	var body struct {
		Leaks *[]simcloud.Leak `json:"leaks"`
	}
	if answer.StatusCode != http.StatusOK || json.Unmarshal(data, &body) != nil || body.Leaks == nil {
		return nil, fmt.Errorf("list leaks: GET %s: %s: not a cloud of cysim serve", url, answer.Status)
	}
	return *body.Leaks, nil
}
