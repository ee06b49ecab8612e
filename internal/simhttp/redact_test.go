package simhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

const (
	fernet = "gAAAAABmZ0pQ3x1Yt-7uW_0aB8cD9eF"
	webKey = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJl"
	opaque = "0123456789abcdef0123456789abcdef"
)

// recorded is the record of a request to a service.
func recorded(method, target, body string, header ...string) sim.Exchange {
	served, recorder := 0, NewRecorder(1)
	ask(Recording(strictService(&served), recorder), method, target, body, header...)
	return recorder.Exchanges()[0]
}

func TestTheRecordHasNoSecrets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, target string
		header       []string
		want         sim.Exchange // Path, Query, From and what is unrecognized
	}{
		{"nothing secret", "/things?limit=1&in_tree=a%2Fb&x", []string{"User-Agent", "keystonemiddleware.auth_token/10.1 keystoneauth1/5"}, sim.Exchange{
			Path: "/things", Query: "limit=1&in_tree=a%2Fb&x", From: "keystonemiddleware.auth_token/10.1 keystoneauth1/5", Unrecognized: []string{"query in_tree", "query x"},
		}},
		{"a token in the query", "/things?limit=" + fernet + "&limit=" + webKey, nil, sim.Exchange{Path: "/things", Query: "limit=%2A%2A%2A&limit=%2A%2A%2A"}},
		{"names of secrets", "/things?passwd=a&API-Key=b&apikey=c&user_password=d&client.secret=e&access_token=f&pass%77ord=g&secret", nil, sim.Exchange{
			Path: "/things", Query: "passwd=***&API-Key=***&apikey=***&user_password=***&client.secret=***&access_token=***&pass%77ord=***&secret",
			Unrecognized: []string{
				"query passwd", "query API-Key", "query apikey", "query user_password", "query client.secret", "query access_token", "query password", "query secret",
			},
		}},
		{"when a password expires", "/things?password_expires_at=lt:2026", nil, sim.Exchange{Path: "/things", Query: "password_expires_at=lt:2026", Unrecognized: []string{"query password_expires_at"}}},
		{"a secret in a value", "/things?limit=%7B%22password%22%3A%20%22hunter2%22%7D", nil, sim.Exchange{Path: "/things", Query: "limit=%7B%22password%22%3A+%22%2A%2A%2A%22%7D"}},
		{"a token as a key", "/things?" + fernet + "=1&" + fernet, nil, sim.Exchange{Path: "/things", Query: "%2A%2A%2A=1&%2A%2A%2A", Unrecognized: []string{"query ***"}}},
		{"the path", "/v2.0/tokens/" + opaque + "/endpoints;passwd=hunter2", nil, sim.Exchange{Path: "/v2.0/tokens/***/endpoints;passwd=***"}},
		{"a token in the path", "/users/" + fernet + "/x", nil, sim.Exchange{Path: "/users/***/x"}},
		{"the token of the request", "/users/" + opaque + "?limit=" + opaque, []string{"X-Auth-Token", opaque}, sim.Exchange{Path: "/users/***", Query: "limit=%2A%2A%2A"}},
		{"of a header with a secret's name", "/users/" + opaque, []string{"X-Vendor-Api-Key", opaque}, sim.Exchange{Path: "/users/***"}},
		{"of the authorization", "/users/" + opaque, []string{"Authorization", "Bearer " + opaque}, sim.Exchange{Path: "/users/***"}},
		{"an identifier in another header", "/users/" + opaque, []string{"X-Project-Id", opaque}, sim.Exchange{Path: "/users/" + opaque}},
		{"a short token is a word", "/users/admin", []string{"X-Auth-Token", "admin"}, sim.Exchange{Path: "/users/admin"}},
		{"the caller", "/things", []string{"User-Agent", "agent (http://bob:hunter2@example.com) token=hunter2 Bearer hunter2 " + fernet}, sim.Exchange{
			Path: "/things", From: "agent (http://***@example.com) token=*** Bearer *** ***",
		}},
	} {
		got := recorded(http.MethodGet, test.target, "", test.header...)
		got = sim.Exchange{Path: got.Path, Query: got.Query, From: got.From, Unrecognized: got.Unrecognized}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestMethodsThatAreTokensAreNotRecorded(t *testing.T) {
	t.Parallel()
	if got := recorded(fernet, "/things", ""); got.Method != "***" {
		t.Errorf("method %s is recorded", got.Method)
	}
}

func TestUnrecognizedMembersThatAreTokensAreNotRecorded(t *testing.T) {
	t.Parallel()
	got := recorded(http.MethodPost, "/things", `{"`+fernet+`": 1, "passwd": "hunter2", "passwd=hunter2": 1}`)
	want := []string{"body ***", "body passwd", "body passwd=***"}
	if diff := cmp.Diff(want, got.Unrecognized); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A client may choose the names of what it makes.
func TestTheChangesHaveNoSecrets(t *testing.T) {
	t.Parallel()
	type row struct {
		Name string `json:"name"`
	}
	service := notingService(func(ctx context.Context) {
		log := ChangeLogOf(ctx)
		log.Record([]sim.RecordChange{{Table: "t", Key: "1", Kind: "thing", ID: opaque, Label: opaque, Before: row{opaque}, After: row{"x password=hunter2"}}})
		log.Add(
			sim.Change{Action: sim.Created, Kind: "thing", ID: "2", What: "Bearer hunter2 " + fernet},
			sim.Change{Action: sim.Created, Kind: "thing", ID: "3", What: strings.Repeat("a", 480) + opaque}, // which is cut
			sim.Change{Action: sim.Created, Kind: "thing", ID: "4", What: "PGPU on gpu0: total 1 -> 2"},
		)
	})
	want := []sim.Change{
		{Action: sim.Changed, Kind: "thing", ID: "***", What: "***: name *** -> x password=***"},
		{Action: sim.Created, Kind: "thing", ID: "2", What: "Bearer *** ***"},
		{Action: sim.Created, Kind: "thing", ID: "3", What: strings.Repeat("a", 480) + "***…"},
		{Action: sim.Created, Kind: "thing", ID: "4", What: "PGPU on gpu0: total 1 -> 2"},
	}
	var observed sim.Exchange
	service.Observe = func(e sim.Exchange) { observed = e }
	recorder := NewRecorder(1)
	ask(Recording(service, recorder), http.MethodPost, "/do", "", "X-Auth-Token", opaque)
	for name, got := range map[string]sim.Exchange{"recorded": recorder.Exchanges()[0], "observed": observed} {
		if diff := cmp.Diff(want, got.Changes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Rules act on what was sent, even if the record redacts it.
func TestFaultsFindSubjectsThatAreNotRecorded(t *testing.T) {
	t.Parallel()
	faults := fault.NewSet("test.token")
	if err := faults.Set(fault.Rule{Operation: "test.token", Subject: fernet, Action: fault.Status, Status: 503}); err != nil {
		t.Fatal(err)
	}
	service := &Service{
		Name: "test", Clock: Wall{}, IDs: NewIDs(1, "test"), Faults: faults,
		Router:     NewRouter(Route{Operation: "test.token", Method: "GET", Pattern: "/tokens/{token}"}),
		Handler:    func(c *Call) error { return c.Empty(http.StatusNoContent) },
		WriteError: func(c *Call, err error) { http.Error(c.W, err.Error(), AsError(err).Status) },
	}
	recorder := NewRecorder(1)
	if w := ask(Recording(service, recorder), http.MethodGet, "/tokens/"+fernet, ""); w.Code != 503 {
		t.Errorf("answered %d", w.Code)
	}
	got := recorder.Exchanges()[0]
	if text, err := json.Marshal(got); err != nil || strings.Contains(string(text), fernet) || got.Subject != "***" {
		t.Errorf("recorded %s, %v", text, err)
	}
}

// Whatever is recorded of a request is the same when it is redacted again, and text without the forms of a
// secret stays as it is.
func FuzzRedact(f *testing.F) {
	for _, seed := range []string{"/v2.0/tokens/" + fernet, "a=1&token=" + webKey, "pass%77ord=%zz&=&&;", "Bearer x token: Bearer y", "http://a:b@c token=\"x\""} {
		f.Add(seed)
	}
	answers, err := filepath.Glob("../../cyborgclient/testdata/answers/error_*.json") // of a real Cyborg
	if err != nil || len(answers) == 0 {
		f.Fatalf("%d answers, %v", len(answers), err)
	}
	for _, name := range answers {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		none := secrets{}
		for name, redact := range map[string]func(string) string{"text": none.text, "path": none.path, "query": none.query} {
			once := redact(text)
			if again := redact(once); again != once {
				t.Errorf("%s: %q becomes %q, then %q", name, text, once, again)
			}
			if strings.Contains(once, fernet) || strings.Contains(once, webKey) {
				t.Errorf("%s: a token remains of %q: %q", name, text, once)
			}
		}
	})
}
