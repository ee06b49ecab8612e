package cyborgclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/session"
)

// bufferTransport reads each answer completely below the retry policy, so that
// a truncated answer is a failed connection, which a GET may retry, and not a
// JSON error.
type bufferTransport struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *bufferTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	outcome := session.OutcomeOf(req.Context())
	outcome.Attempts++
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp == nil {
		return nil, errors.New("the transport returned neither an answer nor an error")
	}
	if resp.Request == nil { // in-process transports leave it out
		resp.Request = req
	}
	if resp.Body == nil {
		resp.Body = http.NoBody
	}
	outcome.Answer, err = readAnswer(resp)
	if err != nil && (resp.StatusCode < 300 || errors.Is(err, httpbounds.ErrTooLarge)) {
		return nil, err
	}
	// A truncated body of an error answer is kept: its status is known.
	resp.Body = io.NopCloser(bytes.NewReader(outcome.Answer))
	return resp, nil
}

func readAnswer(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	data, err := httpbounds.ReadAll(resp.Body, resp.ContentLength)
	if err != nil {
		return data, fmt.Errorf("read the answer: %w", err)
	}
	return data, nil
}
