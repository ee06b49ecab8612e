package cyborgclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
)

// RetryOpts configures retries. Only GET, HEAD and DELETE are retried: after a
// failed connection, on 502, 503 and 504, and on 429 with a Retry-After header.
// POST and PATCH are never retried: a second create makes a second set of ARQs,
// and a second bind meets a state that the first one changed.
//
// The wait doubles from WaitMin up to WaitMax, without jitter so that a run can
// be repeated. The Retry-After header of a 429 or 503 replaces the wait; one longer
// than RetryAfterMax ends the call with the answer that carried it.
type RetryOpts struct {
	Max           int           // retries after the first attempt; 0 = 3, negative = none
	WaitMin       time.Duration // 0 = 500 ms
	WaitMax       time.Duration // 0 = 5 s
	RetryAfterMax time.Duration // 0 = 30 s
}

func (o RetryOpts) withDefaults() RetryOpts {
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

// attempts counts the attempts of one call. It is a value of the request's
// context because CheckRetry gets no request when no response came. One
// goroutine at a time uses it: http.Client runs transports on the caller's.
type attempts struct {
	method string
	sent   int // requests handed to the transport
	// uncertain: an earlier attempt may have been applied although Cyborg did not
	// answer it. A 404 to a retried DELETE then means that the resource is gone.
	uncertain bool
	answer    []byte // body of the last answer
}

type attemptsKey struct{}

func withAttempts(ctx context.Context, method string) (context.Context, *attempts) {
	tries := &attempts{method: method}
	return context.WithValue(ctx, attemptsKey{}, tries), tries
}

func attemptsFrom(ctx context.Context) *attempts {
	tries, _ := ctx.Value(attemptsKey{}).(*attempts)
	return tries
}

// newRetry puts the retry policy around base. The library's default logger,
// which prints to standard error, is replaced, and the last answer is passed on
// unchanged, or its status would be lost.
func newRetry(base http.RoundTripper, opts RetryOpts, logger *slog.Logger) http.RoundTripper {
	opts = opts.withDefaults()
	client := &retryablehttp.Client{
		HTTPClient: &http.Client{
			Transport: base,
			// The client around this transport handles redirects.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		RetryMax: opts.Max, RetryWaitMin: opts.WaitMin, RetryWaitMax: opts.WaitMax,
		CheckRetry:   opts.check,
		Backoff:      backoff,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	if logger != nil { // a nil *slog.Logger in the interface would not be a nil interface
		client.Logger = logger
	}
	return &retryTransport{&retryablehttp.RoundTripper{Client: client}}
}

// retryTransport puts the method into the context of requests that do not come
// from a Client's methods.
type retryTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t *retryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if attemptsFrom(req.Context()) == nil {
		ctx, _ := withAttempts(req.Context(), req.Method)
		req = req.WithContext(ctx)
	}
	return t.next.RoundTrip(req)
}

// check implements the policy of RetryOpts.
func (o RetryOpts) check(ctx context.Context, resp *http.Response, err error) (bool, error) {
	tries := attemptsFrom(ctx)
	if tries == nil || !repeatable(tries.method) || ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		tries.uncertain = tries.uncertain || !notSent(err)
		return !permanent(err), nil
	}
	wait, asked := retryAfter(resp.Header)
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		tries.uncertain = true
		return !asked || wait <= o.RetryAfterMax, nil
	case http.StatusTooManyRequests:
		return asked && wait <= o.RetryAfterMax, nil
	}
	return false, nil
}

func repeatable(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodDelete
}

// permanent reports transport errors for which a retry is useless.
func permanent(err error) bool {
	return errors.Is(err, httpbounds.ErrTooLarge) || errors.Is(err, httpbounds.ErrPage) || handshakeFailed(err)
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
