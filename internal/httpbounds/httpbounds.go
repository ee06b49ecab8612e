package httpbounds

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// AnswerLimit bounds one answer of an OpenStack service, in bytes. Cyborg's lists
// have no pages: 80,000 accelerator requests are 50 MB.
const AnswerLimit = 128 << 20

// ErrPage is the error of a request to an API that a web page answers with 2xx, as a proxy
// in maintenance and a dashboard do.
var ErrPage = errors.New("HTML, not the JSON expected")

// ErrTooLarge is the error of reading an answer beyond its limit.
var ErrTooLarge = errors.New("the answer is too large")

// maxRedirects is the longest chain of redirects that is followed.
const maxRedirects = 5

// Client returns a copy of a client that reads answers up to a limit in bytes and
// follows redirects only to the same server.
func Client(client http.Client, limit int64) http.Client {
	client.Transport = Transport(client.Transport, limit)
	client.CheckRedirect = CheckRedirect
	return client
}

// Transport returns a transport for APIs whose answers end with ErrTooLarge beyond a limit in
// bytes, at once if an answer announces more. An HTML answer with 2xx is an error that matches
// ErrPage; http.Client adds the URL. A nil base is http.DefaultTransport.
func Transport(base http.RoundTripper, limit int64) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{base: base, limit: limit}
}

type transport struct {
	base  http.RoundTripper
	limit int64
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err != nil || resp == nil || resp.Body == nil {
		return resp, err
	}
	if resp.StatusCode/100 == 2 && isPage(resp.Header) {
		resp.Body.Close()
		return nil, fmt.Errorf("answered %d with %w", resp.StatusCode, ErrPage)
	}
	left := t.limit
	if resp.ContentLength > left {
		left = 0
	}
	resp.Body = &limited{ReadCloser: resp.Body, left: left, limit: t.limit}
	return resp, nil
}

// isPage reports whether an answer is HTML.
func isPage(header http.Header) bool {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return kind == "text/html" || kind == "application/xhtml+xml"
}

// limited is a body with a limit.
type limited struct {
	io.ReadCloser
	left, limit int64
}

// Read implements io.Reader. One byte more than the limit is read, because an answer
// may end at the limit.
func (b *limited) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		n, b.left = int(b.left), 0
		return n, fmt.Errorf("%w: more than %d MiB", ErrTooLarge, b.limit>>20)
	}
	b.left -= int64(n)
	return n, err
}

// believedLength is the largest announced length of a body that is trusted, in bytes.
const believedLength = 4 << 20

// ReadAll is io.ReadAll with room for the length that is expected; negative: unknown.
func ReadAll(r io.Reader, expected int64) ([]byte, error) {
	if expected < 0 || expected > believedLength {
		return io.ReadAll(r)
	}
	data := make([]byte, 0, expected+1) // the last read finds the end
	for len(data) < cap(data) {
		n, err := r.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch err {
		case nil:
		case io.EOF:
			return data, nil
		default:
			return data, err
		}
	}
	rest, err := io.ReadAll(r)
	return append(data, rest...), err
}

// CheckRedirect is a redirect policy for http.Client: a redirect is followed with the
// same method to the same server, any other is an answer. net/http would send headers
// such as X-Auth-Token and, after a 307 or 308, the body of a login to any server.
func CheckRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	if req.Method != first.Method || !SameServer(req.URL, first.URL) || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// SameServer reports whether two URLs have the same scheme, host and port.
func SameServer(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch given := u.Port(); {
	case given != "":
		return given
	case u.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}

// AskAgain reports whether a request with this answer may be answered otherwise in a moment: a gateway or a
// limit of rates answered it.
func AskAgain(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// Refused reports whether a status proves that the request was not applied: a 4xx does, except 408, which
// Envoy also answers to a complete request that the service still works on.
func Refused(status int) bool { return status/100 == 4 && status != http.StatusRequestTimeout }
