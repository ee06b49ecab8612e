package fakecyborg

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/sim"
)

// maxAnswer is the longest answer read from a peer, in bytes: bitstream images
// are the long ones.
const maxAnswer = 1 << 30

// peer is another service, spoken to over HTTP.
type peer struct {
	endpoint sim.Endpoint
	agent    string // User-Agent
}

// answer is what a peer said.
type answer struct {
	status int
	body   []byte
}

func (a answer) ok() bool { return a.status >= 200 && a.status < 300 }

// decode reads a JSON body.
func (a answer) decode(into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return fmt.Errorf("answer %d is not the JSON expected: %w", a.status, err)
	}
	return nil
}

// call is one request to a peer.
type call struct {
	method, path string
	header       map[string]string
	body         any // nil: none
}

// do sends a request and reads the whole answer. The error is for a request
// that got none; it never carries the token.
func (p *peer) do(ctx context.Context, c call) (answer, error) {
	req, err := p.request(ctx, c)
	if err != nil {
		return answer{}, err
	}
	client := p.endpoint.Client
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return answer{}, fmt.Errorf("%s %s: read the answer: %w", c.method, c.path, err)
	}
	return answer{status: res.StatusCode, body: body}, nil
}

func (p *peer) request(ctx context.Context, c call) (*http.Request, error) {
	var body io.Reader
	if c.body != nil {
		data, err := json.Marshal(c.body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: encode: %w", c.method, c.path, err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, strings.TrimSuffix(p.endpoint.URL, "/")+c.path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", p.agent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.header {
		req.Header.Set(name, value)
	}
	if p.endpoint.Token == nil {
		return req, nil
	}
	token, err := p.endpoint.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s %s: get a token: %w", c.method, c.path, err)
	}
	req.Header.Set("X-Auth-Token", token)
	return req, nil
}
