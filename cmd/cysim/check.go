package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/simcloud"
)

// checkCommand tells what leaked in a cloud that serve runs.
type checkCommand struct {
	URL          string `env:"CYSIM_URL" required:"" placeholder:"URL" help:"Address of the cloud, as serve prints it (CYSIM_URL)."`
	ControlToken string `env:"CYSIM_CONTROL_TOKEN" placeholder:"TOKEN" help:"The control token of the cloud, if it has one (CYSIM_CONTROL_TOKEN)."`
	Output       string `short:"o" enum:"text,json" default:"text" help:"text: a sentence for each leak; json: a list with kind, subject and text."`
}

// errLeaks is the end of a check that found something.
var errLeaks = errors.New("accelerators leaked")

const (
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 64 << 20
	// answerTimeout is how long a cloud may take to answer.
	answerTimeout = time.Minute
)

// Run implements the command.
func (c *checkCommand) Run(p *process) error {
	if err := checkURL("url", c.URL); err != nil {
		return err
	}
	leaks, err := c.leaks(p)
	if err != nil {
		return err
	}
	if err := c.print(p.stdout, leaks); err != nil {
		return err
	}
	if len(leaks) > 0 {
		return fmt.Errorf("%w: %d findings", errLeaks, len(leaks))
	}
	return nil
}

// leaks asks the cloud.
func (c *checkCommand) leaks(p *process) ([]simcloud.Leak, error) {
	url := strings.TrimSuffix(c.URL, "/") + "/_sim/leaks"
	req, err := http.NewRequestWithContext(p.ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, badInput(fmt.Errorf("--url: %w", err))
	}
	if c.ControlToken != "" {
		req.Header.Set(controlTokenHeader, c.ControlToken)
	}
	client := http.Client{Timeout: answerTimeout}
	answer, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for leaks: %w", err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("ask for leaks: GET %s: %w", url, err)
	}
	if answer.StatusCode == http.StatusUnauthorized {
		return nil, badInput(errors.New("ask for leaks: the cloud wants its --control-token"))
	}
	var body struct {
		Leaks *[]simcloud.Leak `json:"leaks"`
	}
	if answer.StatusCode != http.StatusOK || json.Unmarshal(data, &body) != nil || body.Leaks == nil {
		return nil, fmt.Errorf("ask for leaks: GET %s: %s: that is no cloud of cysim serve", url, answer.Status)
	}
	return *body.Leaks, nil
}

func (c *checkCommand) print(w io.Writer, leaks []simcloud.Leak) error {
	if c.Output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(leaks)
	}
	if len(leaks) == 0 {
		_, err := fmt.Fprintln(w, "nothing leaked")
		return err
	}
	for _, l := range leaks {
		if _, err := fmt.Fprintln(w, l.Text); err != nil {
			return err
		}
	}
	return nil
}
