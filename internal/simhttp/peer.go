package simhttp

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

// Peer is another service, spoken to over HTTP.
type Peer struct {
	Endpoint sim.Endpoint
	Agent    string // User-Agent
}

// Answer is what a peer answered.
type Answer struct {
	Status int
	Body   []byte
}

// OK reports whether the status is 2xx.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// Decode reads a JSON body.
func (a Answer) Decode(into any) error {
	if err := json.Unmarshal(a.Body, into); err != nil {
		return fmt.Errorf("answer %d is not the JSON expected: %w", a.Status, err)
	}
	return nil
}

// PeerCall is one request to a peer.
type PeerCall struct {
	Method, Path string
	Header       map[string]string
	Body         any // nil: none
}

// Do sends a request and reads the whole answer. The error is for a request
// that got none; it never carries the token.
func (p *Peer) Do(ctx context.Context, c PeerCall) (Answer, error) {
	req, err := p.request(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	client := p.Endpoint.Client
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return Answer{}, fmt.Errorf("%s %s: read the answer: %w", c.Method, c.Path, err)
	}
	return Answer{Status: res.StatusCode, Body: body}, nil
}

func (p *Peer) request(ctx context.Context, c PeerCall) (*http.Request, error) {
	var body io.Reader
	if c.Body != nil {
		data, err := json.Marshal(c.Body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: encode: %w", c.Method, c.Path, err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, c.Method, strings.TrimSuffix(p.Endpoint.URL, "/")+c.Path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", p.Agent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.Header {
		req.Header.Set(name, value)
	}
	if p.Endpoint.Token == nil {
		return req, nil
	}
	token, err := p.Endpoint.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s %s: get a token: %w", c.Method, c.Path, err)
	}
	req.Header.Set("X-Auth-Token", token)
	return req, nil
}
