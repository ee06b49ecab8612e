package cyborgclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

func TestEndpoints(t *testing.T) {
	t.Parallel()
	tests := []struct{ given, want string }{
		{"http://h/accelerator/v2", "http://h/accelerator/v2/"},
		{"http://h/accelerator/v2/", "http://h/accelerator/v2/"},
		{"http://h/accelerator", "http://h/accelerator/v2/"},
		{"http://h:6666", "http://h:6666/v2/"},
		{"https://h/v2.0/", "https://h/v2.0/"},
		{"http://h/v1", ""}, {"ftp://h/v2", ""}, {"h/v2", ""}, {"", ""}, {"http://h/v2?x=1", ""}, {"http://%zz", ""},
		{"http://user:secret@h/v2", ""},
	}
	for _, test := range tests {
		client, err := cyborgclient.NewWithEndpoint(test.given, "")
		switch {
		case test.want == "":
			if !errorsIs(err, cyborgclient.ErrInvalid) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: err = %v, want ErrInvalid", test.given, err)
			}
		case err != nil || client.Service().Endpoint != test.want:
			t.Errorf("%q: endpoint %v, %v; want %q", test.given, client, err, test.want)
		}
	}
}

// provider is an authenticated provider with a catalog of one endpoint, whose
// requests go to transport.
func provider(transport http.RoundTripper, token string) *gophercloud.ProviderClient {
	p := &gophercloud.ProviderClient{HTTPClient: http.Client{Transport: transport}}
	p.UseTokenLock()
	p.SetToken(token)
	p.EndpointLocator = func(opts gophercloud.EndpointOpts) (string, error) {
		if opts.Type != "accelerator" || opts.Region == "nowhere" {
			return "", &gophercloud.ErrEndpointNotFound{}
		}
		return fmt.Sprintf("http://%s.example/accelerator", opts.Availability), nil
	}
	return p
}

// clientOf makes a client of a provider.
func clientOf(t *testing.T, p *gophercloud.ProviderClient, opts ...cyborgclient.Option) *cyborgclient.Client {
	t.Helper()
	client, err := cyborgclient.New(p, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestEndpointComesFromTheCatalog(t *testing.T) {
	t.Parallel()
	client, err := cyborgclient.New(provider(nil, ""), cyborgclient.WithEndpointOpts(gophercloud.EndpointOpts{Availability: gophercloud.AvailabilityInternal}))
	if err != nil || client.Service().Endpoint != "http://internal.example/accelerator/v2/" {
		t.Errorf("New: %v, %v", client, err)
	}
	client, err = cyborgclient.New(provider(nil, ""))
	if err != nil || client.Service().Endpoint != "http://public.example/accelerator/v2/" {
		t.Errorf("New: %v, %v", client, err)
	}
	_, err = cyborgclient.New(provider(nil, ""), cyborgclient.WithEndpointOpts(gophercloud.EndpointOpts{Region: "nowhere"}))
	var missing *gophercloud.ErrEndpointNotFound
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("New in an unknown region: %v", err)
	}
	for _, unusable := range []*gophercloud.ProviderClient{nil, {}} {
		if _, err := cyborgclient.New(unusable); !errorsIs(err, cyborgclient.ErrInvalid) {
			t.Errorf("New(%v): %v", unusable, err)
		}
	}
}

// guarded answers 401 to any token but the current one.
type guarded struct {
	current  atomic.Value
	requests atomic.Int32
	next     http.Handler
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.requests.Add(1)
	if r.Header.Get("X-Auth-Token") != g.current.Load() {
		reply(w, 401, `{"error": {"code": 401, "title": "Unauthorized", "message": "who are you?"}}`)
		return
	}
	g.next.ServeHTTP(w, r)
}

// expired is a provider whose token "old" its server refuses; it takes "new".
func expired() (*guarded, *gophercloud.ProviderClient) {
	server := &guarded{next: fixed(201, `{"arqs": []}`)}
	server.current.Store("new")
	return server, provider(&wire{handler: server}, "old")
}

func TestExpiredTokenIsRenewedThroughTheProvider(t *testing.T) {
	t.Parallel()
	_, shared := expired()
	var renewals atomic.Int32
	shared.ReauthFunc = func(context.Context) error {
		renewals.Add(1)
		shared.SetToken("new")
		return nil
	}
	client := clientOf(t, shared)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := create(t.Context(), client); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if renewals.Load() != 1 || shared.Token() != "new" {
		t.Errorf("%d renewals; provider %q", renewals.Load(), shared.Token())
	}
}

func TestTokenThatTheProviderHasRenewedIsTakenOver(t *testing.T) {
	t.Parallel()
	_, shared := expired()
	client := clientOf(t, shared)
	shared.SetToken("new")
	if err := create(t.Context(), client); err != nil {
		t.Error(err)
	}
}

func TestRefusedTokenIsUnauthorized(t *testing.T) {
	t.Parallel()
	server := &guarded{next: fixed(201, `{"arqs": []}`)}
	server.current.Store("other")
	down := errors.New("keystone is down")
	tests := []struct {
		name     string
		reauth   func(*gophercloud.ProviderClient) func(context.Context) error
		requests int32
		is       error
	}{
		{"no way to renew", nil, 1, nil},
		{"renewal fails", func(*gophercloud.ProviderClient) func(context.Context) error {
			return func(context.Context) error { return down }
		}, 1, down},
		{"new token refused too", func(p *gophercloud.ProviderClient) func(context.Context) error {
			return func(context.Context) error { p.SetToken("newer"); return nil }
		}, 2, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server.requests.Store(0)
			shared := provider(&wire{handler: server}, "old")
			if test.reauth != nil {
				shared.ReauthFunc = test.reauth(shared)
			}
			client := clientOf(t, shared)
			err := create(t.Context(), client)
			var apiErr *cyborgclient.APIError
			if !errorsIs(err, cyborgclient.ErrUnauthorized) || !errors.As(err, &apiErr) || errors.Is(err, cyborgclient.ErrReplyLost) {
				t.Errorf("err = %v", err)
			}
			if test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("err = %v does not tell %v", err, test.is)
			}
			if server.requests.Load() != test.requests {
				t.Errorf("%d requests, want %d", server.requests.Load(), test.requests)
			}
		})
	}
}

func TestTheGivenProviderIsNotChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport, at := script(t, step{status: 503})
		shared := provider(transport, "t0ken")
		client := clientOf(t, shared, cyborgclient.WithRetry(cyborgclient.RetryOpts{Max: 5}))
		if _, same := shared.HTTPClient.Transport.(transportFunc); !same || shared.HTTPClient.CheckRedirect != nil || shared.ReauthFunc != nil {
			t.Errorf("the provider was changed: %+v", shared.HTTPClient)
		}
		placement := &gophercloud.ServiceClient{ProviderClient: shared, Endpoint: "http://placement.example/", Type: "placement"}
		_, err := placement.Get(t.Context(), placement.ServiceURL("resource_providers"), nil, nil)
		if !gophercloud.ResponseCodeIs(err, 503) || len(*at) != 1 {
			t.Errorf("placement: %v after %d attempts; it must not be retried because of us", err, len(*at))
		}
		if client.Service().ProviderClient == shared {
			t.Error("the client shares the provider itself")
		}
	})
}

func TestRetryFuncOfTheProviderDoesNotRepeatACreate(t *testing.T) {
	t.Parallel()
	server := &wire{handler: fixed(503, "")}
	shared := provider(server, "t0ken")
	shared.RetryFunc = func(context.Context, string, string, *gophercloud.RequestOpts, error, uint) error { return nil }
	client := clientOf(t, shared)
	if err := create(t.Context(), client); !errorsIs(err, cyborgclient.ErrReplyLost) || len(server.requests()) != 1 {
		t.Errorf("err = %v after %d requests", err, len(server.requests()))
	}
}

// cloudServer is Keystone and Cyborg behind one transport.
func cloudServer(t *testing.T, region string) http.HandlerFunc {
	catalog := func(iface, region string) string {
		return fmt.Sprintf(`{"interface": %q, "region": %q, "region_id": %q, "url": "http://%s.%s.example/accelerator/v2"}`,
			iface, region, region, strings.ToLower(region), iface)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/v3/auth/tokens":
			w.Header().Set("X-Subject-Token", "from-keystone")
			reply(w, 201, `{"token": {"expires_at": "2035-01-01T00:00:00.000000Z", "catalog": [{"type": "accelerator", "endpoints": [`+
				catalog("public", "Other")+","+catalog("internal", region)+","+catalog("public", region)+`]}]}}`)
		case strings.HasPrefix(r.URL.Path, "/accelerator/v2/") && r.Header.Get("X-Auth-Token") == "from-keystone":
			reply(w, 200, `{"arqs": []}`)
		default:
			t.Errorf("unexpected %s %s", r.Method, r.URL)
			http.NotFound(w, r)
		}
	}
}

// useClouds has clients read a clouds.yaml.
func useClouds(t *testing.T, yaml string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
}

func TestNewFromCloud(t *testing.T) {
	useClouds(t, `clouds:
  sim:
    auth: {auth_url: "http://keystone.example/v3", username: admin, password: secret, project_name: admin,
           user_domain_name: Default, project_domain_name: Default}
    region_name: RegionOne
    interface: internal
`)
	t.Setenv("OS_CLOUD", "sim")
	tests := []struct {
		name, cloud string
		opts        []cyborgclient.Option
		want        string
	}{
		{"named", "sim", nil, "GET http://regionone.internal.example/accelerator/v2/accelerator_requests"},
		{"from OS_CLOUD", "", nil, "GET http://regionone.internal.example/accelerator/v2/accelerator_requests"},
		{"options win", "sim", []cyborgclient.Option{cyborgclient.WithEndpointOpts(gophercloud.EndpointOpts{Availability: gophercloud.AvailabilityPublic}), cyborgclient.WithEndpointOpts(gophercloud.EndpointOpts{Region: "Other"})},
			"GET http://other.public.example/accelerator/v2/accelerator_requests"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			transport := &wire{handler: cloudServer(t, "RegionOne")}
			client, err := cyborgclient.NewFromCloud(t.Context(), test.cloud, append(test.opts, cyborgclient.WithTransport(transport))...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.ListARQs(t.Context(), cyborgclient.ListARQsOpts{}); err != nil {
				t.Fatal(err)
			}
			wantLines(t, transport, "POST http://keystone.example/v3/auth/tokens", test.want)
		})
	}
	if _, err := cyborgclient.NewFromCloud(t.Context(), "other"); err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("unknown cloud: %v", err)
	}
}

// Keystone answers 401 to a wrong secret, and 404 to an application credential that was deleted.
func TestALoginThatKeystoneRefuses(t *testing.T) {
	useClouds(t, `clouds:
  sim:
    auth_type: v3applicationcredential
    auth: {auth_url: "http://keystone.example/v3", application_credential_id: robot, application_credential_secret: hush-hush}
`)
	for _, test := range []struct {
		name    string
		status  int
		body    string
		refused bool
	}{
		{"wrong secret", 401, `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`, true},
		{"deleted", 404, `{"error": {"code": 404, "title": "Not Found", "message": "Could not find Application Credential: robot."}}`, true},
		{"the 404 of an ingress", 404, `<h1>Not Found</h1>`, false},
		{"the 404 of another service", 404, `{"message": "no route"}`, false},
		{"forbidden", 403, `{"error": {"code": 403, "title": "Forbidden", "message": "no"}}`, false},
	} {
		refusing := fixed(test.status, test.body)
		_, first := cyborgclient.NewFromCloud(t.Context(), "sim", cyborgclient.WithTransport(&wire{handler: refusing}))
		working, logins := cloudServer(t, "RegionOne"), 0
		client, err := cyborgclient.NewFromCloud(t.Context(), "sim", cyborgclient.WithTransport(&wire{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/v3/auth/tokens") && logins > 0:
				refusing(w, r)
			case strings.HasSuffix(r.URL.Path, "/v3/auth/tokens"):
				logins++
				working(w, r)
			default:
				fixed(401, `{"error": {"code": 401}}`)(w, r)
			}
		})}))
		if err != nil {
			t.Fatal(err)
		}
		_, again := client.ListARQs(t.Context(), cyborgclient.ListARQsOpts{})
		for when, err := range map[string]error{"first": first, "again": again} {
			if errors.Is(err, cyborgclient.ErrUnauthorized) != (test.refused || when == "again") || errors.Is(err, cyborgclient.ErrNotFound) || errors.Is(err, cyborgclient.ErrUnavailable) ||
				strings.Contains(err.Error(), "not authenticated") != (test.refused || when == "again") || strings.Contains(err.Error(), "hush-hush") || cyborgclient.IsMissing(err) {
				t.Errorf("%s, %s login: %v", test.name, when, err)
			}
			if strings.Count(err.Error(), "not authenticated") > 1 {
				t.Errorf("%s, %s login: the cause twice: %v", test.name, when, err)
			}
		}
		if !gophercloud.ResponseCodeIs(first, test.status) || !strings.Contains(first.Error(), "log in at http://keystone.example/v3") {
			t.Errorf("%s: %v", test.name, first)
		}
	}
}

func TestServiceReturnsACopy(t *testing.T) {
	t.Parallel()
	client, transport := newClient(t, fixed(200, `{"arqs": []}`))
	client.Service().Microversion = "2.9"
	client.Service().Endpoint = "http://elsewhere.example/"
	if err := listARQs(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	request := transport.requests()[0]
	if request.Header.Get("OpenStack-API-Version") != "accelerator 2.0" || !strings.HasPrefix(request.URL, endpoint) {
		t.Errorf("sent %+v", request)
	}
}

func TestClientFromACloudRenewsItsToken(t *testing.T) {
	useClouds(t, `clouds: {sim: {auth: {auth_url: "http://keystone.example/v3", username: admin, password: secret,
  project_name: admin, user_domain_name: Default, project_domain_name: Default}}}`)
	issued := 0
	server := &wire{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v3/auth/tokens":
			issued++
			w.Header().Set("X-Subject-Token", fmt.Sprint("token-", issued))
			reply(w, 201, `{"token": {"expires_at": "2035-01-01T00:00:00.000000Z", "catalog": [{"type": "accelerator",
				"endpoints": [{"interface": "public", "region": "R", "url": "http://cyborg.example/accelerator/v2"}]}]}}`)
		case r.Header.Get("X-Auth-Token") == "token-1":
			reply(w, 401, string(answer(t, "error_401")))
		default:
			reply(w, 200, `{"arqs": []}`)
		}
	})}
	client, err := cyborgclient.NewFromCloud(t.Context(), "sim", cyborgclient.WithTransport(server))
	if err != nil {
		t.Fatal(err)
	}
	if err := listARQs(t.Context(), client); err != nil || issued != 2 {
		t.Errorf("err = %v after %d tokens", err, issued)
	}
}

func TestObserversSeeOnlyTheCallsOfTheirContext(t *testing.T) {
	t.Parallel()
	client, _ := newClient(t, fixed(200, `{"arqs": []}`))
	var outer, left, right recorder
	ctx := t.Context()
	for range 3 { // more than one, so that a shared backing array would show
		ctx = cyborgclient.Observe(ctx, outer.observe)
	}
	leftCtx := cyborgclient.Observe(ctx, left.observe)
	rightCtx := cyborgclient.Observe(ctx, right.observe)
	for _, ctx := range []context.Context{leftCtx, rightCtx, rightCtx} {
		if err := listARQs(ctx, client); err != nil {
			t.Fatal(err)
		}
	}
	if len(outer.calls) != 9 || len(left.calls) != 1 || len(right.calls) != 2 {
		t.Errorf("outer %d, left %d, right %d calls; want 9, 1, 2", len(outer.calls), len(left.calls), len(right.calls))
	}
}
