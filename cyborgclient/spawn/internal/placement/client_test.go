package placement_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/requestspec"
)

// transport is an in-process Placement.
type transport func(*http.Request) *http.Response

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := f(req)
	resp.Request = req
	return resp, nil
}

func respond(status int, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body)}
}

func newClient(t *testing.T, server transport, reauth func(*gophercloud.ProviderClient) func(context.Context) error) *placement.Client {
	t.Helper()
	provider := &gophercloud.ProviderClient{HTTPClient: http.Client{Transport: server}}
	provider.UseTokenLock()
	provider.SetToken("old")
	if reauth != nil {
		provider.ReauthFunc = reauth(provider)
	}
	client, err := placement.New(&gophercloud.ServiceClient{ProviderClient: provider, Endpoint: "http://placement.example/"}, false)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestAHugeAnswerIsNotRead(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 500} {
		client := newClient(t, func(*http.Request) *http.Response {
			huge := respond(status, strings.NewReader(" "))
			huge.ContentLength = httpbounds.AnswerLimit + 1
			return huge
		}, nil)
		_, err := client.Candidates(t.Context(), requestspec.RequestSpec{})
		if err == nil || status == 200 && !errors.Is(err, httpbounds.ErrTooLarge) || status != 200 && placement.StatusOf(err) != status {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

func TestARedirectCarriesNoTokenToAnotherServer(t *testing.T) {
	t.Parallel()
	for _, location := range []string{"http://other.example/", "http://placement.example:8778/", "https://placement.example/"} {
		sent := 0
		client := newClient(t, func(*http.Request) *http.Response {
			sent++
			resp := respond(http.StatusTemporaryRedirect, strings.NewReader(""))
			resp.Header.Set("Location", location)
			return resp
		}, nil)
		if _, err := client.Allocation(t.Context(), "consumer"); placement.StatusOf(err) != http.StatusTemporaryRedirect || sent != 1 {
			t.Errorf("to %s: %d requests, %v", location, sent, err)
		}
	}
}

func TestConcurrentRequestsSurviveTheEndOfTheToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var renewals atomic.Int32
		client := newClient(t, func(req *http.Request) *http.Response {
			if req.Header.Get("X-Auth-Token") != "new" {
				return respond(401, strings.NewReader(`{"message": "no", "code": "401 Unauthorized"}`))
			}
			return respond(204, strings.NewReader(""))
		}, func(p *gophercloud.ProviderClient) func(context.Context) error {
			return func(ctx context.Context) error {
				renewals.Add(1)
				select {
				case <-time.After(time.Minute):
					p.SetToken("new")
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		})
		var group sync.WaitGroup
		for n := range 64 {
			group.Go(func() {
				ctx, cancel := t.Context(), func() {}
				if n < 4 { // these end during their renewal
					ctx, cancel = context.WithTimeout(ctx, time.Duration(n+1)*time.Second)
				}
				defer cancel()
				err := client.SetAllocation(ctx, "consumer", placement.Allocation{})
				if n < 4 && !placement.Refused(err) || n >= 4 && err != nil {
					t.Errorf("request %d: %v", n, err)
				}
			})
		}
		group.Wait()
		if got := renewals.Load(); got > 5 {
			t.Errorf("%d renewals", got)
		}
	})
}

func TestAFailedRenewalIsNamed(t *testing.T) {
	t.Parallel()
	down := errors.New("keystone is down")
	client := newClient(t, func(*http.Request) *http.Response { return respond(401, strings.NewReader("")) },
		func(*gophercloud.ProviderClient) func(context.Context) error {
			return func(context.Context) error { return down }
		})
	_, err := client.Allocation(t.Context(), "consumer")
	if !errors.Is(err, down) || placement.StatusOf(err) != 401 || !strings.HasSuffix(err.Error(), "401 Unauthorized: reauthenticate: keystone is down") {
		t.Errorf("err = %v", err)
	}
}

// read and write are one request of each kind.
func read(ctx context.Context, c *placement.Client) error {
	_, err := c.Allocation(ctx, "consumer")
	return err
}

func readProviders(ctx context.Context, c *placement.Client) error {
	_, err := c.Tree(ctx, "root", "")
	return err
}

func readCandidates(ctx context.Context, c *placement.Client) error {
	_, err := c.Candidates(ctx, requestspec.RequestSpec{})
	return err
}

func write(ctx context.Context, c *placement.Client) error {
	return c.SetAllocation(ctx, "consumer", placement.Allocation{})
}

// A load balancer or a rate limiter responds. A write is not repeated, and its outcome is known only as far as the
// status proves it.
func TestReadsAreRepeatedAndWritesAreNot(t *testing.T) {
	t.Parallel()
	for _, status := range []int{408, 429, 502, 503, 504, 500, 404} {
		for name, call := range map[string]func(context.Context, *placement.Client) error{
			"GET allocations": read, "GET resource_providers": readProviders, "GET allocation_candidates": readCandidates, "PUT": write,
		} {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				provider := &gophercloud.ProviderClient{HTTPClient: http.Client{Transport: transport(func(*http.Request) *http.Response {
					sent++
					return respond(status, strings.NewReader(""))
				})}}
				provider.MaxBackoffRetries = 2
				provider.RetryBackoffFunc = func(context.Context, *gophercloud.ErrUnexpectedResponseCode, error, uint) error { return nil }
				client, err := placement.New(&gophercloud.ServiceClient{ProviderClient: provider, Endpoint: "http://placement.example/"}, false)
				if err != nil {
					t.Fatal(err)
				}
				err = call(t.Context(), client)
				want := 1
				switch {
				case name == "PUT", status == 500, status == 404:
				case status == 429:
					want = 12 // three times what the transport sends: the provider's own function repeats it twice
				default:
					want = 4
				}
				if sent != want || placement.StatusOf(err) != status || placement.Refused(err) != (status == 429 || status == 404) {
					t.Errorf("%s, %d: %d requests, want %d; refused: %v; %v", name, status, sent, want, placement.Refused(err), err)
				}
			})
		}
	}
}

func TestAWebPageIsCalledHTML(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		call func(context.Context, *placement.Client) error
		path string
	}{{read, "allocations/consumer"}, {readProviders, "resource_providers?in_tree=root"}, {readCandidates, "allocation_candidates?"}, {write, "allocations/consumer"}} {
		sent := 0
		client := newClient(t, func(*http.Request) *http.Response {
			sent++
			resp := respond(200, strings.NewReader("<html><title>Dashboard</title></html>"))
			resp.Header.Set("Content-Type", "text/html")
			return resp
		}, nil)
		err := test.call(t.Context(), client)
		if want := `"http://placement.example/` + test.path + `": answered 200 with HTML`; !errors.Is(err, httpbounds.ErrPage) || !strings.Contains(err.Error(), want) ||
			placement.Refused(err) || sent != 1 {
			t.Errorf("%d requests, %v, want %s", sent, err, want)
		}
	}
}
