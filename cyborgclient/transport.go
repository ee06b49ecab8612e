package cyborgclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// answerLimit bounds one answer, in bytes. Cyborg's lists have no pages, so the
// limit is far above any real cloud; it protects the caller's memory.
const answerLimit = 32 << 20

var errTooLarge = errors.New("the answer is larger than 32 MiB")

// bufferTransport reads each answer completely below the retry policy, so that
// a truncated answer is a failed connection, which a GET may retry, and not a
// JSON error.
type bufferTransport struct{ base http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *bufferTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if tries := attemptsFrom(req.Context()); tries != nil {
		tries.sent++
	}
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
	body, err := readAnswer(resp.Body)
	if err != nil && (resp.StatusCode < 300 || errors.Is(err, errTooLarge)) {
		return nil, err
	}
	// A truncated body of an error answer is kept: its status is known.
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

func readAnswer(body io.ReadCloser) ([]byte, error) {
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, answerLimit+1))
	if err != nil {
		return data, fmt.Errorf("read the answer: %w", err)
	}
	if len(data) > answerLimit {
		return nil, errTooLarge
	}
	return data, nil
}

// sameServer is the redirect policy when the caller's http.Client has none. A
// redirect is followed only with the same method to the same host, and never
// from https to http: net/http would turn a POST into a GET, and would send
// X-Auth-Token and X-Service-Token to any host.
func sameServer(req *http.Request, via []*http.Request) error {
	first := via[0]
	downgrade := first.URL.Scheme == "https" && req.URL.Scheme != "https"
	if req.Method != first.Method || req.URL.Hostname() != first.URL.Hostname() || downgrade || len(via) >= 5 {
		return http.ErrUseLastResponse
	}
	return nil
}
