package cyborgclient_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// step is what the server does to one attempt.
type step struct {
	status int // 0: the connection breaks
	header http.Header
	body   string
}

// script answers attempt n with step n; more attempts than steps are a failure
// of the test.
func script(t *testing.T, steps ...step) (transportFunc, *[]time.Duration) {
	t.Helper()
	var at []time.Duration
	start := time.Now()
	return func(req *http.Request) (*http.Response, error) {
		at = append(at, time.Since(start))
		if len(at) > len(steps) {
			t.Errorf("attempt %d of %s %s was not expected", len(at), req.Method, req.URL)
			return nil, io.EOF
		}
		now := steps[len(at)-1]
		if now.status == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		header := http.Header{}
		for name, values := range now.header {
			header[name] = values
		}
		return &http.Response{StatusCode: now.status, Header: header, Body: io.NopCloser(strings.NewReader(now.body))}, nil
	}, &at
}

func deleteOne(ctx context.Context, client *cyborgclient.Client) error {
	return client.DeleteAttribute(ctx, arq1)
}

func after(value string) http.Header { return http.Header{"Retry-After": {value}} }

func seconds(values ...float64) []time.Duration {
	var durations []time.Duration
	for _, value := range values {
		durations = append(durations, time.Duration(value*float64(time.Second)))
	}
	return durations
}

func TestRetryPolicy(t *testing.T) {
	t.Parallel()
	empty, missing := `{"arqs": []}`, quoted("Attribute not found")
	tests := []struct {
		name  string
		call  call
		opts  cyborgclient.RetryOpts
		steps []step
		at    []time.Duration // when each attempt was made
		want  error           // nil: success
	}{
		{"read is repeated on 502, 503, 504", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 502}, {status: 503}, {status: 504}, {status: 200, body: empty}}, seconds(0, 0.5, 1.5, 3.5), nil},
		{"read is repeated on broken connections", listARQs, cyborgclient.RetryOpts{},
			[]step{{}, {}, {status: 200, body: empty}}, seconds(0, 0.5, 1.5), nil},
		{"read gives up", listARQs, cyborgclient.RetryOpts{},
			[]step{{}, {status: 503}, {}, {status: 503}}, seconds(0, 0.5, 1.5, 3.5), cyborgclient.ErrUnavailable},
		{"waits stop growing", listARQs, cyborgclient.RetryOpts{Max: 5, WaitMin: time.Second, WaitMax: 3 * time.Second},
			[]step{{}, {}, {}, {}, {}, {}}, seconds(0, 1, 3, 6, 9, 12), cyborgclient.ErrUnavailable},
		{"read is not repeated on 500", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 500}}, seconds(0), cyborgclient.ErrUnavailable},
		{"read is not repeated on 404", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 404}}, seconds(0), cyborgclient.ErrNotFound},
		{"no retries when so asked", listARQs, cyborgclient.RetryOpts{Max: -1},
			[]step{{status: 503}}, seconds(0), cyborgclient.ErrUnavailable},
		{"429 waits for Retry-After", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 429, header: after("7")}, {status: 200, body: empty}}, seconds(0, 7), nil},
		{"read is repeated on 408, and on 429 without Retry-After", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 408}, {status: 429}, {status: 408}, {status: 200, body: empty}}, seconds(0, 0.5, 1.5, 3.5), nil},
		{"read gives up on 408 and 429", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 429}, {status: 408}, {status: 429}, {status: 408}}, seconds(0, 0.5, 1.5, 3.5), cyborgclient.ErrUnavailable},
		{"429 with too long a Retry-After ends", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 429, header: after("31")}}, seconds(0), cyborgclient.ErrUnavailable},
		{"429 with a nonsense Retry-After does not wait for it", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 429, header: after("-1")}, {status: 200, body: empty}}, seconds(0, 0.5), nil},
		{"503 waits for Retry-After", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 503, header: after("2")}, {status: 200, body: empty}}, seconds(0, 2), nil},
		{"503 with too long a Retry-After ends", listARQs, cyborgclient.RetryOpts{RetryAfterMax: time.Second},
			[]step{{status: 503, header: after("2")}}, seconds(0), cyborgclient.ErrUnavailable},
		{"503 with a Retry-After of more than 31 bits ends", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 503, header: after("4294967296")}}, seconds(0), cyborgclient.ErrUnavailable},
		{"503 with a Retry-After of more than 64 bits ends", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 503, header: after("99999999999999999999")}}, seconds(0), cyborgclient.ErrUnavailable},
		{"503 with a Retry-After that has a sign does not wait for it", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 503, header: after("+9999999")}, {status: 200, body: empty}}, seconds(0, 0.5), nil},
		{"503 with a date of another form does not wait for it", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 503, header: after("Fri, 01 Jan 2100 00:00:00 UTC")}, {status: 200, body: empty}}, seconds(0, 0.5), nil},
		{"Retry-After as a date of the virtual clock", listARQs, cyborgclient.RetryOpts{},
			[]step{{status: 429, header: after("Sat, 01 Jan 2000 00:00:04 GMT")}, {status: 200, body: empty}}, seconds(0, 4), nil},

		{"create is never repeated: connection", create, cyborgclient.RetryOpts{}, []step{{}}, seconds(0), cyborgclient.ErrReplyLost},
		{"create is never repeated: 503", create, cyborgclient.RetryOpts{}, []step{{status: 503}}, seconds(0), cyborgclient.ErrReplyLost},
		{"create is never repeated: 429", create, cyborgclient.RetryOpts{},
			[]step{{status: 429, header: after("1")}}, seconds(0), cyborgclient.ErrUnavailable},
		{"create is never repeated: 429 without Retry-After", create, cyborgclient.RetryOpts{},
			[]step{{status: 429}}, seconds(0), cyborgclient.ErrUnavailable},
		{"create is never repeated: 408", create, cyborgclient.RetryOpts{}, []step{{status: 408}}, seconds(0), cyborgclient.ErrReplyLost},
		{"bind is never repeated: 408", bind, cyborgclient.RetryOpts{}, []step{{status: 408}}, seconds(0), cyborgclient.ErrReplyLost},
		{"bind is never repeated: connection", bind, cyborgclient.RetryOpts{}, []step{{}}, seconds(0), cyborgclient.ErrReplyLost},
		{"bind is never repeated: 504", bind, cyborgclient.RetryOpts{}, []step{{status: 504}}, seconds(0), cyborgclient.ErrReplyLost},

		{"delete is repeated", deleteOne, cyborgclient.RetryOpts{}, []step{{status: 502}, {status: 204}}, seconds(0, 0.5), nil},
		{"delete done before the reply was lost", deleteOne, cyborgclient.RetryOpts{}, []step{{}, {status: 404, body: missing}}, seconds(0, 0.5), nil},
		{"delete done behind a gateway that gave up", deleteOne, cyborgclient.RetryOpts{}, []step{{status: 504}, {status: 404, body: missing}}, seconds(0, 0.5), nil},
		{"delete done by a service slower than its balancer", deleteOne, cyborgclient.RetryOpts{},
			[]step{{status: 408}, {status: 404, body: missing}}, seconds(0, 0.5), nil},
		{"delete refused before it was done, without Retry-After", deleteOne, cyborgclient.RetryOpts{},
			[]step{{status: 429}, {status: 404, body: missing}}, seconds(0, 0.5), cyborgclient.ErrNotFound},
		{"delete behind a gateway without a backend", deleteOne, cyborgclient.RetryOpts{},
			[]step{{status: 503}, {status: 404, body: "default backend - 404"}}, seconds(0, 0.5), cyborgclient.ErrNotFound},
		{"delete of a missing ARQ", deleteOne, cyborgclient.RetryOpts{}, []step{{status: 404}}, seconds(0), cyborgclient.ErrNotFound},
		{"delete refused before it was done", deleteOne, cyborgclient.RetryOpts{},
			[]step{{status: 429, header: after("1")}, {status: 404}}, seconds(0, 1), cyborgclient.ErrNotFound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport, at := script(t, test.steps...)
				var calls recorder
				client, _ := newClient(t, nil, cyborgclient.WithTransport(transport),
					cyborgclient.WithRetry(test.opts))
				err := test.call(cyborgclient.Observe(t.Context(), calls.observe), client)
				if (test.want == nil) != (err == nil) || test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("err = %v, want %v", err, test.want)
				}
				if diff := cmp.Diff(test.at, *at); diff != "" {
					t.Errorf("attempts (-want +got):\n%s", diff)
				}
				if len(calls.calls) != 1 || calls.calls[0].Attempts != len(test.steps) ||
					calls.calls[0].Status != test.steps[len(test.steps)-1].status {
					t.Errorf("calls = %+v", calls.calls)
				}
				if last := test.at[len(test.at)-1]; calls.calls[0].Duration != last {
					t.Errorf("duration = %v, want %v", calls.calls[0].Duration, last)
				}
			})
		})
	}
}

func TestTruncatedReadsAreRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		client, _ := newClient(t, nil, cyborgclient.WithTransport(transportFunc(func(*http.Request) (*http.Response, error) {
			attempts++
			body := io.Reader(strings.NewReader(`{"arqs": []}`))
			if attempts == 1 {
				body = io.MultiReader(strings.NewReader(`{"ar`), errorReader{io.ErrUnexpectedEOF})
			}
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(body)}, nil
		})))
		if err := listARQs(t.Context(), client); err != nil || attempts != 2 {
			t.Errorf("err = %v after %d attempts", err, attempts)
		}
	})
}

func TestOversizedAnswersAreRefusedAndNotRetried(t *testing.T) {
	t.Parallel()
	attempts := 0
	client, _ := newClient(t, nil, cyborgclient.WithTransport(transportFunc(func(r *http.Request) (*http.Response, error) {
		attempts++
		return hugeAnswer(r)
	})))
	err := listARQs(t.Context(), client)
	if !errorsIs(err, cyborgclient.ErrMalformed) || attempts != 1 {
		t.Errorf("err = %v after %d attempts", err, attempts)
	}
}

func TestCancelEndsTheWaitBetweenAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport, at := script(t, step{status: 503}, step{status: 503})
		client, _ := newClient(t, nil, cyborgclient.WithTransport(transport))
		ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := listARQs(ctx, client)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 700*time.Millisecond || len(*at) != 2 {
			t.Errorf("err = %v after %v and %d attempts", err, time.Since(start), len(*at))
		}
	})
}

func TestRequestBodyIsWholeAfterARedirect(t *testing.T) {
	t.Parallel()
	client, transport := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/moved") {
			http.Redirect(w, r, "/accelerator/v2/moved", http.StatusTemporaryRedirect)
			return
		}
		reply(w, 201, `{"arqs": []}`)
	})
	if err := create(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	for _, request := range transport.requests() {
		if request.Body != `{"device_profile_name":"dp-pgpu"}` {
			t.Errorf("body of %s = %q", request.URL, request.Body)
		}
	}
}

func TestUntrustedCertificatesAreNotRetried(t *testing.T) {
	t.Parallel()
	attempts := 0
	refuse := transportFunc(func(*http.Request) (*http.Response, error) {
		attempts++
		return nil, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	})
	client, _ := newClient(t, nil, cyborgclient.WithTransport(refuse))
	if err := listARQs(t.Context(), client); !errorsIs(err, cyborgclient.ErrUnavailable) || attempts != 1 {
		t.Errorf("read: err = %v after %d attempts", err, attempts)
	}
	if err := create(t.Context(), client); !errorsIs(err, cyborgclient.ErrUnavailable) || errors.Is(err, cyborgclient.ErrReplyLost) {
		t.Errorf("create: err = %v, nothing can have been sent", err)
	}
}

func TestAttemptsAreLoggedWithoutTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		transport, _ := script(t, step{}, step{status: 200, body: `{"arqs": []}`})
		client, _ := newClient(t, nil, cyborgclient.WithTransport(transport), cyborgclient.WithLogger(logger))
		if err := listARQs(t.Context(), client); err != nil {
			t.Fatal(err)
		}
		if text := log.String(); !strings.Contains(text, "retrying request") || strings.Contains(text, "t0ken") {
			t.Errorf("log:\n%s", text)
		}
	})
}

func TestNilLoggerLogsNothing(t *testing.T) {
	t.Parallel()
	var none *slog.Logger
	client, _ := newClient(t, fixed(200, `{"arqs": []}`), cyborgclient.WithLogger(none))
	if err := listARQs(t.Context(), client); err != nil {
		t.Fatal(err)
	}
}

func TestRawRequestsAreRetriedToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport, at := script(t, step{status: 503}, step{status: 200, body: `{"odd": true}`})
		client, _ := newClient(t, nil, cyborgclient.WithTransport(transport))
		service := client.Service()
		var body map[string]bool
		if _, err := service.Get(t.Context(), service.ServiceURL("odd"), &body, nil); err != nil || !body["odd"] || len(*at) != 2 {
			t.Errorf("err = %v, body %v, %d attempts", err, body, len(*at))
		}
	})
}

func TestOverARealSocket(t *testing.T) {
	t.Parallel()
	attempts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if attempts++; attempts == 1 { // promise more than is sent
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"arqs"`)
			return
		}
		w.Header().Set("Date", "Fri, 20 Nov 2026 21:18:37 GMT")
		reply(w, 200, `{"arqs": []}`)
	}))
	defer server.Close()
	var calls recorder
	client, err := cyborgclient.NewWithEndpoint(server.URL, "",
		cyborgclient.WithRetry(cyborgclient.RetryOpts{WaitMin: time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	if err := listARQs(cyborgclient.Observe(t.Context(), calls.observe), client); err != nil || attempts != 2 {
		t.Fatalf("err = %v after %d attempts", err, attempts)
	}
	if want := at("2026-11-20T21:18:37Z"); !calls.calls[0].Date.Equal(want.Time) {
		t.Errorf("date = %v, want %v", calls.calls[0].Date, want)
	}
	server.Close()
	if err := create(t.Context(), client); !errorsIs(err, cyborgclient.ErrUnavailable) || errors.Is(err, cyborgclient.ErrReplyLost) {
		t.Errorf("create on a closed port: err = %v, want ErrUnavailable only", err)
	}
}
