package simhttp

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
)

// Transport is an http.RoundTripper that calls a handler without a socket, so
// that it works inside a testing/synctest bubble. The caller waits for the
// handler, but as with a real connection not longer than its context lasts: then
// it gets the error of the context, while the handler runs to its end. The memory of an
// answer's body is used again once the body is closed.
type Transport struct {
	// Prompt says of a request that its handler waits for nothing: the caller then does the
	// handler's work itself, and sees the end of its context after it. Nil says so of none.
	Prompt  func(*http.Request) bool
	handler http.Handler
	bodies  sync.Pool // of *bytes.Buffer, for answers
}

// Internal is the transport for the simulator's own services: what they send is marked as
// such in the record ([Exchange.Internal]).
func (t *Transport) Internal() http.RoundTripper { return internalTransport{t} }

type internalTransport struct{ *Transport }

// RoundTrip implements http.RoundTripper.
func (t internalTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.roundTrip(req, true)
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a transport in front of the handler, for requests to any host.
func NewTransport(handler http.Handler) *Transport { return &Transport{handler: handler} }

// errReset is the caller's error when the handler drops the connection.
var errReset = errors.New("connection closed by the simulator before the answer")

// RoundTrip implements http.RoundTripper. A context that ends while the handler works
// makes the answer unknown to the caller.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.roundTrip(req, false)
}

func (t *Transport) roundTrip(req *http.Request, internal bool) (*http.Response, error) {
	ctx := req.Context()
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(err, closeBody(req))
	}
	server, err := serverRequest(req, internal)
	if err != nil {
		return nil, err
	}
	return t.exchange(server, req)
}

// exchange lets the handler answer a request.
func (t *Transport) exchange(server, req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	call, err := t.serve(server)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err
	}
	if call.panicked != nil {
		panic(call.panicked)
	}
	if call.dropped && call.answer.status == 0 {
		return nil, fmt.Errorf("%w: %w", errReset, io.ErrUnexpectedEOF)
	}
	return t.response(req, call), nil
}

// call is the state of a request.
type call struct {
	answer   *buffer
	dropped  bool
	panicked any
}

// serve lets the handler work, and waits no longer than the context lasts. A caller that can never leave, or
// need not, needs no goroutine for it.
func (t *Transport) serve(req *http.Request) (call, error) {
	ctx := req.Context()
	if ctx.Done() == nil || t.Prompt != nil && t.Prompt(req) {
		return t.call(req), nil
	}
	done := make(chan call, 1)
	go func() {
		growStack(-1)
		done <- t.call(req)
	}()
	select {
	case <-ctx.Done():
		return call{}, ctx.Err()
	case c := <-done:
		return c, nil
	}
}

// growStack makes the stack of a new goroutine as large as most handlers need. It would
// otherwise be copied at each doubling, a sixth of the time of a small request. The room is never
// used, so nothing clears it.
//
//go:noinline
func growStack(i int) byte {
	if i < 0 {
		return 0
	}
	var room [20 << 10]byte
	return room[i]
}

// call runs the handler; an http.ErrAbortHandler panic means that the
// connection was dropped, as in net/http. Any other panic is the caller's.
func (t *Transport) call(req *http.Request) (c call) {
	body, ok := t.bodies.Get().(*bytes.Buffer)
	if !ok {
		body = new(bytes.Buffer)
	}
	c.answer = newBuffer(body)
	defer func() {
		cause := recover()
		c.dropped = cause == http.ErrAbortHandler //nolint:errorlint // net/http compares the same way
		if !c.dropped {
			c.panicked = cause
		}
	}()
	t.handler.ServeHTTP(c.answer, req)
	c.answer.WriteHeader(http.StatusOK)
	return c
}

func closeBody(req *http.Request) error {
	if req.Body == nil {
		return nil
	}
	return req.Body.Close()
}

// serverRequest is the request as a server would have read it, with its whole body: the
// caller may be gone while the handler reads.
func serverRequest(req *http.Request, internal bool) (*http.Request, error) {
	ctx, s := newScope(req.Context())
	s.internal = s.internal || internal
	server := req.WithContext(ctx)
	server.Header = req.Header.Clone() // the handler may change its own
	server.URL = &url.URL{Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery, Host: req.URL.Host}
	return server, complete(server)
}

// complete turns a client's request into one that a server has read. No other goroutine may use it.
func complete(server *http.Request) error {
	switch server.Body.(type) {
	case nil:
		server.Body = http.NoBody
	case *received:
	default:
		body, err := httpbounds.ReadAll(server.Body, server.ContentLength)
		if err = errors.Join(err, server.Body.Close()); err != nil {
			return fmt.Errorf("%s %s: read the request's body: %w", server.Method, server.URL.Path, err)
		}
		server.Body = newReceived(body)
	}
	if server.Host == "" {
		server.Host = server.URL.Host
	}
	server.URL.Scheme, server.URL.Host = "", ""
	if server.URL.Path == "" {
		server.URL.Path = "/"
	}
	server.RequestURI = server.URL.RequestURI()
	server.RemoteAddr = "127.0.0.1:0"
	server.Proto, server.ProtoMajor, server.ProtoMinor = "HTTP/1.1", 1, 1
	if server.Header == nil {
		server.Header = make(http.Header)
	}
	if server.ContentLength > 0 {
		server.Header.Set("Content-Length", strconv.FormatInt(server.ContentLength, 10))
	}
	if server.Header.Get("User-Agent") == "" {
		server.Header.Set("User-Agent", "Go-http-client/1.1")
	}
	return nil
}

func (t *Transport) response(req *http.Request, c call) *http.Response {
	body := &answerBody{data: c.answer.body, end: io.EOF, pool: &t.bodies}
	length := int64(body.data.Len())
	if c.dropped {
		body.end = io.ErrUnexpectedEOF
		length = -1
		if n, err := strconv.ParseInt(c.answer.header.Get("Content-Length"), 10, 64); err == nil {
			length = n
		}
	}
	resp := &http.Response{
		Status:     strconv.Itoa(c.answer.status) + " " + http.StatusText(c.answer.status),
		StatusCode: c.answer.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        c.answer.header,
		Body:          body,
		ContentLength: length,
		Request:       req,
	}
	if req.Method == http.MethodHead {
		resp.Body = http.NoBody
	}
	return resp
}

// answerBody is the body of an answer. Its memory is that of later answers once it is closed.
type answerBody struct {
	mu   sync.Mutex
	data *bytes.Buffer // nil: closed
	end  error         // what follows the data
	pool *sync.Pool
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.data == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	if b.data.Len() == 0 {
		return 0, b.end
	}
	return b.data.Read(p)
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.data != nil && b.data.Cap() <= MaxBody {
		b.data.Reset()
		b.pool.Put(b.data)
	}
	b.data = nil
	return nil
}
