package session

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
)

// Retry is a policy for the repetition of reads and deletions: after a failed connection, and when
// the answer asks for it (see httpbounds.AskAgain). Writes are never repeated: a second one meets what
// the first one has changed.
//
// The wait doubles from WaitMin up to WaitMax, without jitter. The Retry-After header of a 429 or 503
// replaces the wait; one longer than RetryAfterMax ends the request with the answer that carried it.
type Retry struct {
	Max           int           // retries after the first attempt; 0 = 3, negative = none
	WaitMin       time.Duration // 0 = 500 ms
	WaitMax       time.Duration // 0 = 5 s
	RetryAfterMax time.Duration // 0 = 30 s
}

func (o Retry) withDefaults() Retry {
	if o.Max == 0 {
		o.Max = 3
	}
	o.Max = max(o.Max, 0)
	if o.WaitMin <= 0 {
		o.WaitMin = 500 * time.Millisecond
	}
	if o.WaitMax <= 0 {
		o.WaitMax = max(5*time.Second, o.WaitMin)
	}
	if o.RetryAfterMax <= 0 {
		o.RetryAfterMax = 30 * time.Second
	}
	return o
}

// Transport puts the policy around base. The library's default logger, which prints to standard error,
// is replaced by the given one, nil for none, and the last answer is passed on unchanged, or its status
// would be lost.
func (o Retry) Transport(base http.RoundTripper, logger *slog.Logger) http.RoundTripper {
	o = o.withDefaults()
	client := &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport: base,
			// The client around this transport handles redirects.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax: o.Max, RetryWaitMin: o.WaitMin, RetryWaitMax: o.WaitMax,
		CheckRetry:   o.check,
		Backoff:      backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	if logger != nil { // a nil *slog.Logger in the interface would not be a nil interface
		client.Logger = logger
	}
	return &retryTransport{&retryablehttp.RoundTripper{Client: client}}
}

type methodKey struct{}

// retryTransport puts the method into the context, because CheckRetry gets no request when no response came.
type retryTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *retryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.next.RoundTrip(req.WithContext(context.WithValue(req.Context(), methodKey{}, req.Method)))
}

// check implements the policy.
func (o Retry) check(ctx context.Context, resp *http.Response, err error) (bool, error) {
	if method, _ := ctx.Value(methodKey{}).(string); !repeatable(method) || ctx.Err() != nil {
		return false, nil
	}
	outcome := OutcomeOf(ctx)
	if err != nil {
		outcome.Uncertain = outcome.Uncertain || !NotSent(err)
		return !permanent(err), nil
	}
	if !httpbounds.AskAgain(resp.StatusCode) {
		return false, nil
	}
	outcome.Uncertain = outcome.Uncertain || !httpbounds.Refused(resp.StatusCode)
	wait, asked := retryAfter(resp.Header)
	return !asked || wait <= o.RetryAfterMax, nil
}

func repeatable(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete
}

// permanent reports transport errors for which a retry is useless.
func permanent(err error) bool {
	return errors.Is(err, httpbounds.ErrTooLarge) || errors.Is(err, httpbounds.ErrPage) || handshakeFailed(err)
}

// NotSent reports whether err proves that no byte of the request reached the server.
func NotSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") || handshakeFailed(err) || errors.Is(err, ErrNoToken)
}

// handshakeFailed reports that the server's certificate was refused or that the
// server does not use TLS. The request was not sent.
func handshakeFailed(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		record       tls.RecordHeaderError
	)
	return errors.As(err, &verification) || errors.As(err, &authority) ||
		errors.As(err, &hostname) || errors.As(err, &record)
}

// backoff is the wait before a retry. The library's own reads other forms of Retry-After than retryAfter,
// and would wait for what check could not read.
func backoff(least, most time.Duration, attempt int, resp *http.Response) time.Duration {
	if resp != nil && (resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable) {
		if wait, asked := retryAfter(resp.Header); asked {
			return wait
		}
	}
	return retryablehttp.DefaultBackoff(least, most, attempt, nil)
}

// retryAfter reads the Retry-After header: seconds, of any number, or a date.
func retryAfter(header http.Header) (wait time.Duration, ok bool) {
	value := header.Get("Retry-After")
	if value == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(math.MaxInt64/time.Second))) * time.Second, true
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return max(0, time.Until(date)), true
}
