package simhttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Transport is an http.RoundTripper that calls a handler on the caller's
// goroutine: no socket, no background goroutine, so that it works inside a
// testing/synctest bubble.
type Transport struct {
	handler http.Handler
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport returns a transport in front of the handler, whatever host a
// request names.
func NewTransport(handler http.Handler) *Transport { return &Transport{handler: handler} }

// errReset is what a caller sees when the handler drops the connection.
var errReset = errors.New("connection closed by the simulator before the answer")

// RoundTrip implements http.RoundTripper. As with a real connection, a context
// that ends while the handler works makes the answer unknown to the caller.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if req.Body != nil {
		defer req.Body.Close()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	answer, dropped := t.call(serverRequest(req))
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if dropped && answer.status == 0 {
		return nil, fmt.Errorf("%s %s: %w: %w", req.Method, req.URL.Path, errReset, io.ErrUnexpectedEOF)
	}
	return response(req, answer, dropped), nil
}

// call runs the handler; an http.ErrAbortHandler panic means that the
// connection was dropped, as in net/http.
func (t *Transport) call(req *http.Request) (answer *buffer, dropped bool) {
	answer = newBuffer()
	defer func() {
		if cause := recover(); cause != nil {
			if cause != http.ErrAbortHandler { //nolint:errorlint // net/http compares the same way
				panic(cause)
			}
			dropped = true
		}
	}()
	t.handler.ServeHTTP(answer, req)
	answer.WriteHeader(http.StatusOK)
	return answer, false
}

// serverRequest is the request as a server would have read it.
func serverRequest(req *http.Request) *http.Request {
	server := req.Clone(req.Context())
	server.URL = &url.URL{Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	if server.URL.Path == "" {
		server.URL.Path = "/"
	}
	server.RequestURI = server.URL.RequestURI()
	server.RemoteAddr = "127.0.0.1:0"
	server.Proto, server.ProtoMajor, server.ProtoMinor = "HTTP/1.1", 1, 1
	if server.Host == "" {
		server.Host = req.URL.Host
	}
	if server.Body == nil {
		server.Body = http.NoBody
	}
	if server.ContentLength > 0 {
		server.Header.Set("Content-Length", strconv.FormatInt(server.ContentLength, 10))
	}
	if server.Header.Get("User-Agent") == "" {
		server.Header.Set("User-Agent", "Go-http-client/1.1")
	}
	return server
}

func response(req *http.Request, answer *buffer, dropped bool) *http.Response {
	var body io.Reader = bytes.NewReader(answer.body.Bytes())
	length := int64(answer.body.Len())
	if dropped {
		body = io.MultiReader(body, failingReader{})
		length = -1
		if n, err := strconv.ParseInt(answer.header.Get("Content-Length"), 10, 64); err == nil {
			length = n
		}
	}
	if req.Method == http.MethodHead {
		body = http.NoBody
	}
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", answer.status, http.StatusText(answer.status)),
		StatusCode: answer.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        answer.header,
		Body:          io.NopCloser(body),
		ContentLength: length,
		Request:       req,
	}
}

type failingReader struct{}

// Read implements io.Reader.
func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
