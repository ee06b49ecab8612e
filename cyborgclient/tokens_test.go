package cyborgclient_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// issuer is a Keystone that knows which tokens are valid.
type issuer struct {
	mu     sync.Mutex
	valid  map[string]bool
	issued map[string]int // by user
	takes  time.Duration  // of a login
}

// login returns a provider of a user that has a token already, "user-0".
func (i *issuer) login(transport http.RoundTripper, user string) *gophercloud.ProviderClient {
	p := provider(transport, user+"-0")
	p.ReauthFunc = func(ctx context.Context) error {
		select {
		case <-time.After(i.takes):
		case <-ctx.Done():
			return ctx.Err()
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.issued[user]++
		token := fmt.Sprint(user, "-", i.issued[user])
		i.valid[token] = true
		p.SetToken(token)
		return nil
	}
	return p
}

// client is a client of the user "user", with the service tokens of "service".
func (i *issuer) client(t *testing.T, transport http.RoundTripper) *cyborgclient.Client {
	t.Helper()
	return clientOf(t, i.login(transport, "user"), cyborgclient.WithServiceProvider(i.login(nil, "service")))
}

// ServeHTTP answers as keystonemiddleware before a Cyborg.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if service := r.Header.Get("X-Service-Token"); !i.valid[r.Header.Get("X-Auth-Token")] || service != "" && !i.valid[service] {
		w.Header().Set("WWW-Authenticate", `Keystone uri="http://keystone.example"`)
		reply(w, 401, `{"error": {"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}}`)
		return
	}
	reply(w, 202, "")
}

func newIssuer(valid ...string) *issuer {
	i := &issuer{valid: map[string]bool{}, issued: map[string]int{}}
	for _, token := range valid {
		i.valid[token] = true
	}
	return i
}

// pairs are the tokens of the requests, "user service".
func pairs(requests []sent) []string {
	var list []string
	for _, r := range requests {
		list = append(list, r.Header.Get("X-Auth-Token")+" "+r.Header.Get("X-Service-Token"))
	}
	return list
}

func TestA401RenewsBothTokensAndRepeatsTheBindOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		valid []string
	}{
		{"both expired", nil},
		{"only the service's", []string{"user-0"}},
		{"only the user's", []string{"service-0"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			keystone := newIssuer(test.valid...)
			server := &wire{handler: keystone}
			client := keystone.client(t, server)
			for range 2 {
				if err := bind(t.Context(), client); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]string{"user-0 service-0", "user-1 service-1", "user-1 service-1"}, pairs(server.requests())); diff != "" {
				t.Errorf("tokens (-want +got):\n%s", diff)
			}
			if requests := server.requests(); requests[0].Body == "" || requests[0].Body != requests[1].Body {
				t.Errorf("bodies %q and %q", requests[0].Body, requests[1].Body)
			}
		})
	}
}

func TestConcurrentRequestsShareOneRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keystone := newIssuer()
		keystone.takes = time.Second
		server := &wire{handler: keystone}
		client := keystone.client(t, server)
		const calls = 64
		var group sync.WaitGroup
		for range calls {
			group.Go(func() {
				if err := bind(t.Context(), client); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if diff := cmp.Diff(map[string]int{"user": 1, "service": 1}, keystone.issued); diff != "" || len(server.requests()) > 2*calls {
			t.Errorf("%d requests, renewals (-want +got):\n%s", len(server.requests()), diff)
		}
	})
}

func TestACancelledRequestDoesNotFailThoseThatShareItsRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keystone := newIssuer()
		keystone.takes = time.Minute
		client := keystone.client(t, &wire{handler: keystone})
		var group sync.WaitGroup
		for n := range 8 {
			group.Go(func() {
				time.Sleep(time.Duration(n) * time.Second) // the first one renews
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if n < 4 {
					ctx, cancel = context.WithTimeout(ctx, 30*time.Second)
				}
				defer cancel()
				if err := bind(ctx, client); (err == nil) != (n >= 4) || errors.Is(err, cyborgclient.ErrReplyLost) {
					t.Errorf("request %d: %v", n, err)
				}
			})
		}
		group.Wait()
	})
}

// A firewall drops the packets to Keystone. The timeout of the dial is not the end of another caller's context, which it matches.
func TestARenewalThatTimesOutIsNotRepeated(t *testing.T) {
	t.Parallel()
	_, unreachable := (&net.Dialer{Timeout: time.Nanosecond}).Dial("tcp", "127.0.0.1:9")
	if !errors.Is(unreachable, context.DeadlineExceeded) {
		t.Fatalf("the dial failed with %v, want a timeout", unreachable)
	}
	logins := 0
	user := provider(&wire{handler: newIssuer()}, "expired")
	user.ReauthFunc = func(context.Context) error {
		logins++
		return unreachable
	}
	client := clientOf(t, user)
	err := listARQs(t.Context(), client)
	if !errors.Is(err, cyborgclient.ErrUnauthorized) || !errors.Is(err, cyborgclient.ErrUnavailable) || logins != 1 {
		t.Errorf("%d logins: %v; want ErrUnauthorized and ErrUnavailable after one", logins, err)
	}
}

func TestARenewalThatBringsTheSameTokenIsRepeated(t *testing.T) {
	t.Parallel()
	for same, ok := range map[int]bool{1: true, 9: false} {
		server, shared := expired()
		renewals := 0
		shared.ReauthFunc = func(context.Context) error {
			if renewals++; renewals > same {
				shared.SetToken("new")
			}
			return nil
		}
		client := clientOf(t, shared)
		if err := create(t.Context(), client); (err == nil) != ok || !ok && !errors.Is(err, cyborgclient.ErrUnauthorized) {
			t.Errorf("%d times the same token: %v", same, err)
		}
		if sent := server.requests.Load(); ok != (sent == 2) || !ok && sent != 1 {
			t.Errorf("%d times the same token: %d requests; a refused token was sent again", same, sent)
		}
	}
}

func TestAServiceTokenWithoutTheRoleIsNamedAsTheLikelyCause(t *testing.T) {
	t.Parallel()
	keystone := newIssuer("user-0")
	service := provider(nil, "service-without-role")
	client := clientOf(t, keystone.login(&wire{handler: keystone}, "user"), cyborgclient.WithServiceProvider(service))
	err := bind(t.Context(), client)
	if !errorsIs(err, cyborgclient.ErrUnauthorized) || !strings.Contains(err.Error(), "role service") || strings.Contains(err.Error(), service.Token()) {
		t.Errorf("err = %v", err)
	}
	if _, err := cyborgclient.New(provider(nil, "t"), cyborgclient.WithServiceProvider(nil)); !errorsIs(err, cyborgclient.ErrInvalid) {
		t.Errorf("no provider: %v", err)
	}
}

func TestAServiceProviderWithoutATokenAuthenticatesFirst(t *testing.T) {
	t.Parallel()
	keystone := newIssuer("user-0")
	server := &wire{handler: keystone}
	service := keystone.login(nil, "service")
	service.SetToken("")
	client := clientOf(t, keystone.login(server, "user"), cyborgclient.WithServiceProvider(service))
	if err := bind(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"user-0 service-1"}, pairs(server.requests())); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}
