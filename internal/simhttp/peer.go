package simhttp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/sim"
)

// maxData is the longest data of an image that is read from a peer, in bytes.
const maxData = 1 << 30

// Peer is another service, spoken to over HTTP.
type Peer struct {
	Endpoint sim.Endpoint
	Agent    string // User-Agent
}

// Answer is the answer of a peer.
type Answer struct {
	Status int
	Header http.Header
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
	Version      string // the value of VersionHeader; "" for none
	Header       map[string]string
	Body         any  // nil: none
	Data         bool // the answer is the data of an image, which may be long
	StatusOnly   bool // the body of an answer 2xx is not read
}

// Do sends a request and reads the whole answer, once more after a 401: the token may have
// been revoked. No redirect to another server is followed, because it would carry the token
// there. The error is for a request that got no answer, or one that is too long; it never
// carries the token.
func (p *Peer) Do(ctx context.Context, c PeerCall) (Answer, error) {
	answer, err := p.send(ctx, c)
	if err == nil && answer.Status == http.StatusUnauthorized && p.Endpoint.Token != nil {
		return p.send(ctx, c)
	}
	return answer, err
}

func (p *Peer) send(ctx context.Context, c PeerCall) (Answer, error) {
	res, err := p.roundTrip(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	defer res.Body.Close()
	if a := (Answer{Status: res.StatusCode, Header: res.Header}); c.StatusOnly && a.OK() {
		return a, nil
	}
	body, err := httpbounds.ReadAll(res.Body, res.ContentLength)
	if err != nil {
		return Answer{}, fmt.Errorf("%s %s: read the answer: %w", c.Method, c.Path, err)
	}
	a := Answer{Status: res.StatusCode, Header: res.Header, Body: body}
	if !a.OK() && res.Request != nil { // errors have parts of it, and a proxy may quote what it refuses
		a.Body = []byte(secretsOf(res.Request.Header).sent(string(body)))
	}
	return a, nil
}

func (p *Peer) roundTrip(ctx context.Context, c PeerCall) (*http.Response, error) {
	client := http.DefaultClient
	if p.Endpoint.Client != nil {
		client = p.Endpoint.Client
	}
	if inside, ok := client.Transport.(internalTransport); ok && client.Timeout == 0 {
		return p.ask(ctx, inside, c)
	}
	req, err := p.request(ctx, c)
	if err != nil {
		return nil, err
	}
	limit := int64(httpbounds.AnswerLimit)
	if c.Data {
		limit = maxData
	}
	bounded := httpbounds.Client(*client, limit)
	return bounded.Do(req)
}

// ask sends a request to a service of the simulator itself. That needs no http.Client, since
// there are no redirects and answers are already bounded, and no second request for the server's
// side.
func (p *Peer) ask(ctx context.Context, inside internalTransport, c PeerCall) (*http.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s %s: %w", c.Method, c.Path, err)
	}
	ctx, s := newScope(ctx)
	s.internal = true
	req, err := p.request(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := complete(req); err != nil {
		return nil, err
	}
	res, err := inside.exchange(req, req)
	if err != nil {
		err = fmt.Errorf("%s %s: %w", c.Method, c.Path, err)
	}
	return res, err
}

func (p *Peer) request(ctx context.Context, c PeerCall) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, c.Method, strings.TrimSuffix(p.Endpoint.URL, "/")+c.Path, nil)
	if err != nil { // it quotes the URL
		return nil, fmt.Errorf("%s %s: %w", c.Method, c.Path, cmp.Or(CheckURL(p.Endpoint.URL), err))
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", p.Agent)
	if c.Body != nil {
		data, err := json.Marshal(c.Body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: encode: %w", c.Method, c.Path, err)
		}
		req.Body, req.ContentLength = newReceived(data), int64(len(data))
		req.GetBody = func() (io.ReadCloser, error) { return newReceived(data), nil }
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Version != "" {
		req.Header.Set(VersionHeader, c.Version)
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
