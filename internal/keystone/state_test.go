package keystone_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// stopped is a clock that moves only when the test sets it.
type stopped struct{ now time.Time }

func (c *stopped) Now() time.Time { return c.now }

func (c *stopped) Wait(context.Context, time.Duration) error { return nil }

func newStopped() *stopped { return &stopped{time.Date(2026, 3, 4, 5, 6, 7, 891011, time.UTC)} }

// dumped is the state of a server.
func dumped(t rapid.TB, s *keystone.Server) []sim.Record {
	t.Helper()
	records, err := tables.Collect(s.State())
	must(t, err)
	return records
}

// must stops a test at an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// withoutRequestID is a header without the one thing that no state has.
func withoutRequestID(h http.Header) http.Header {
	h = h.Clone()
	h.Del(simhttp.RequestIDHeader)
	return h
}

func hexOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// identityConfig has users with roles on several projects.
func identityConfig(clock sim.Clock) keystone.Config {
	return keystone.Config{Seed: 7, Clock: clock, Services: services, Users: []keystone.User{
		{Name: "guest", Roles: map[string][]string{"lab": {"member"}, "demo": {"reader"}}},
	}}
}

// player sends one history to several servers and remembers what it was given, as a
// client does. All servers answer alike.
type player struct {
	t           *testing.T
	servers     []*keystone.Server
	tokens      []string
	credentials []string // id and secret, with a blank between
	owners      []string // of the credentials
}

func newPlayer(t *testing.T, clock *stopped) *player {
	s := keystone.New(identityConfig(clock))
	return &player{t: t, servers: []*keystone.Server{s}, tokens: []string{login(t, s, "admin", "admin")}}
}

// reload adds a second server that has loaded the dump of the first.
func (p *player) reload(rt *rapid.T, clock *stopped) {
	once := dumped(rt, p.servers[0])
	other := keystone.New(identityConfig(clock))
	must(rt, sim.Replace(context.Background(), other.State(), once))
	if diff := cmp.Diff(once, dumped(rt, other)); diff != "" {
		rt.Fatalf("the dump of what was loaded (-want +got):\n%s", diff)
	}
	text := fmt.Sprintf("%s", once)
	for _, token := range p.tokens {
		if strings.Contains(text, token) {
			rt.Fatal("a token is in the dump")
		}
	}
	for _, c := range p.credentials {
		if _, secret, _ := strings.Cut(c, " "); strings.Contains(text, secret) {
			rt.Fatal("a secret is in the dump")
		}
	}
	p.servers = append(p.servers, other)
}

// send asks all servers the same.
func (p *player) send(rt *rapid.T, method, path, body string, header ...string) answer {
	var first answer
	for i, s := range p.servers {
		res := send(p.t, s, method, path, body, header...)
		got := fmt.Sprint(res.StatusCode, withoutRequestID(res.Header), res.body)
		if i == 0 {
			first = res
		} else if diff := cmp.Diff(fmt.Sprint(first.StatusCode, withoutRequestID(first.Header), first.body), got); diff != "" {
			rt.Fatalf("%s %s (-kept +loaded):\n%s", method, path, diff)
		}
	}
	return first
}

// step makes one random call.
func (p *player) step(rt *rapid.T, clock *stopped) {
	token := rapid.SampledFrom(p.tokens).Draw(rt, "token")
	user := rapid.SampledFrom([]string{"admin", "guest", "demo"}).Draw(rt, "user")
	switch rapid.IntRange(0, 7).Draw(rt, "call") {
	case 0:
		p.login(rt, strings.Replace(passwordOfAdmin, "admin", user, 1), rapid.SampledFrom([]string{
			"", `{"project":{"name":"lab","domain":{"id":"default"}}}`, `{"project":{"name":"admin","domain":{"id":"default"}}}`, `{"system":{"all":true}}`,
		}).Draw(rt, "scope"))
	case 1:
		p.login(rt, `"identity":{"methods":["token"],"token":{"id":"`+token+`"}}`, "")
	case 2:
		p.createCredential(rt, token, user)
	case 3:
		if len(p.credentials) > 0 {
			id, secret, _ := strings.Cut(rapid.SampledFrom(p.credentials).Draw(rt, "credential"), " ")
			p.login(rt, `"identity":{"methods":["application_credential"],"application_credential":{"id":"`+id+`","secret":"`+secret+`"}}`, "")
		}
	case 4:
		if len(p.credentials) > 0 {
			i := rapid.IntRange(0, len(p.credentials)-1).Draw(rt, "credential")
			id, _, _ := strings.Cut(p.credentials[i], " ")
			p.send(rt, "DELETE", "/v3/users/"+p.owners[i]+"/application_credentials/"+id, "", "X-Auth-Token", token)
		}
	case 5:
		p.send(rt, "DELETE", "/v3/auth/tokens", "", "X-Auth-Token", token, "X-Subject-Token", rapid.SampledFrom(p.tokens[1:]).Draw(rt, "subject"))
	case 6:
		p.send(rt, "GET", "/v3/auth/tokens", "", "X-Auth-Token", token, "X-Subject-Token", token)
		p.send(rt, "GET", "/v3/auth/projects", "", "X-Auth-Token", token)
	case 7:
		clock.now = clock.now.Add(time.Duration(rapid.IntRange(0, 30).Draw(rt, "minutes")) * time.Minute)
	}
}

// look reads all that can be read, with all tokens.
func (p *player) look(rt *rapid.T) {
	paths := []string{"/v3/auth/projects", "/v3/auth/catalog"}
	for _, owner := range p.owners {
		paths = append(paths, "/v3/users/"+owner+"/application_credentials")
	}
	for _, token := range p.tokens {
		p.send(rt, "GET", "/v3/auth/tokens", "", "X-Auth-Token", token, "X-Subject-Token", token)
		for _, path := range paths {
			p.send(rt, "GET", path, "", "X-Auth-Token", token)
		}
	}
}

func (p *player) login(rt *rapid.T, identity, scope string) {
	if res := p.send(rt, "POST", "/v3/auth/tokens", authBody(identity, scope)); res.StatusCode == http.StatusCreated {
		p.tokens = append(p.tokens, res.Header.Get("X-Subject-Token"))
	}
}

func (p *player) createCredential(rt *rapid.T, token, user string) {
	h, _ := p.servers[0].VerifyToken(token) // an invalid token has no user
	owner := h.Get("X-User-Id")
	more := rapid.SampledFrom([]string{
		"", `,"secret":"chosen-by-` + user + `"`, `,"unrestricted":true`, `,"expires_at":"2026-03-04T05:40:00"`, `,"description":"d","roles":[{"name":"reader"}]`,
	}).Draw(rt, "more")
	name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "name")
	res := p.send(rt, "POST", "/v3/users/"+owner+"/application_credentials",
		`{"application_credential":{"name":"`+name+`"`+more+`}}`, "X-Auth-Token", token)
	if res.StatusCode == http.StatusCreated {
		made := created(rt, res)
		p.credentials = append(p.credentials, made.ID+" "+made.Secret)
		p.owners = append(p.owners, owner)
	}
}

func TestALoadedServiceBehavesLikeTheOriginal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		clock := newStopped()
		p := newPlayer(t, clock)
		p.login(rt, strings.Replace(passwordOfAdmin, "admin", "guest", 1), `{"project":{"name":"lab","domain":{"id":"default"}}}`)
		for range rapid.IntRange(0, 30).Draw(rt, "before") {
			p.step(rt, clock)
		}
		p.reload(rt, clock)
		p.look(rt)
		for range rapid.IntRange(0, 20).Draw(rt, "after") {
			p.step(rt, clock)
		}
		p.look(rt)
		if diff := cmp.Diff(dumped(rt, p.servers[0]), dumped(rt, p.servers[1])); diff != "" {
			rt.Fatalf("dumps after the same calls (-kept +loaded):\n%s", diff)
		}
	})
}

func TestARevokedTokenStaysRevoked(t *testing.T) {
	t.Parallel()
	s := newServer()
	kept, revoked := login(t, s, "demo", "demo"), login(t, s, "demo", "demo")
	send(t, s, "DELETE", "/v3/auth/tokens", "", "X-Auth-Token", kept, "X-Subject-Token", revoked)
	data := dumped(t, s)
	other := newServer()
	must(t, sim.Replace(t.Context(), other.State(), data))
	if _, err := other.VerifyToken(revoked); !errors.Is(err, keystone.ErrToken) {
		t.Errorf("the revoked token: %v, want ErrToken", err)
	}
	if _, err := other.VerifyToken(kept); err != nil {
		t.Errorf("the other token: %v", err)
	}
	text := fmt.Sprintf("%s", data)
	if !strings.Contains(text, hexOf(kept)) || strings.Contains(text, hexOf(revoked)) {
		t.Error("the dump does not contain only the SHA-256 of the kept token")
	}
	if again := login(t, other, "demo", "demo"); again == kept || again == revoked {
		t.Error("a token was given a second time")
	}
}

// Each dump is consistent: it can be loaded regardless of concurrent work.
func TestADumpIsOfOneMoment(t *testing.T) {
	t.Parallel()
	s := keystone.New(identityConfig(nil))
	path := credentialsOf(t, s, login(t, s, "guest", "lab"))
	var group sync.WaitGroup
	for worker := range 3 {
		group.Go(func() {
			for i := range 20 {
				token := login(t, s, "guest", "lab")
				name := fmt.Sprint(worker, "-", i)
				res := send(t, s, "POST", path, `{"application_credential":{"name":"`+name+`","secret":"s"}}`, "X-Auth-Token", token)
				id := created(t, res).ID
				send(t, s, "POST", "/v3/auth/tokens", credentialBody(`"id":"`+id+`","secret":"s"`))
				send(t, s, "DELETE", path+"/"+id, "", "X-Auth-Token", token)
			}
		})
	}
	group.Go(func() {
		for range 40 {
			other := keystone.New(identityConfig(nil))
			if err := sim.Replace(t.Context(), other.State(), dumped(t, s)); err != nil {
				t.Error(err)
			}
		}
	})
	group.Wait()
}

// credentialsOf is where the application credentials of a token's user are.
func credentialsOf(t testing.TB, s *keystone.Server, token string) string {
	t.Helper()
	h, err := s.VerifyToken(token)
	must(t, err)
	return "/v3/users/" + h.Get("X-User-Id") + "/application_credentials"
}
