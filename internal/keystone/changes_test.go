package keystone_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/sim"
)

// changesWorld is an identity service with an administrator who sends random requests.
type changesWorld struct {
	t      *testing.T
	server *keystone.Server
	last   sim.Exchange
	tokens map[string]string // audit ids by token
	token  string
	user   string
}

func newChangesWorld(t *testing.T) *changesWorld {
	t.Helper()
	w := &changesWorld{t: t, server: newServer(), tokens: make(map[string]string)}
	w.server.Service.Observe = func(e sim.Exchange) { w.last = e }
	w.token = login(t, w.server, "admin", "admin")
	header, err := w.server.VerifyToken(w.token)
	must(t, err)
	w.user = header.Get("X-User-Id")
	return w
}

func (w *changesWorld) send(method, path, body string, header ...string) answer {
	w.t.Helper()
	return send(w.t, w.server, method, path, body, append([]string{"X-Auth-Token", w.token}, header...)...)
}

func (w *changesWorld) list(path, key string) []map[string]any {
	w.t.Helper()
	var body map[string]json.RawMessage
	var list []map[string]any
	res := w.send("GET", path, "")
	if json.Unmarshal([]byte(res.body), &body) != nil || json.Unmarshal(body[key], &list) != nil {
		w.t.Fatalf("%s: %d %s", path, res.StatusCode, res.body)
	}
	return list
}

// things are what there is, by kind and id.
func (w *changesWorld) things() map[[2]string]string {
	all := make(map[[2]string]string)
	for _, item := range w.list("/v3/users/"+w.user+"/application_credentials", "application_credentials") {
		all[[2]string{"application_credential", item["id"].(string)}] = fmt.Sprint(item)
	}
	for text, audit := range w.tokens {
		if _, err := w.server.VerifyToken(text); err == nil {
			all[[2]string{"token", audit}] = ""
		}
	}
	return all
}

// do sends one random request and answers what it noted. Tokens that were issued are kept.
func (w *changesWorld) do(rng *rand.Rand) []sim.Change {
	w.t.Helper()
	pick := func(names ...string) string { return names[rng.IntN(len(names))] }
	some := func(path, key string) string {
		if list := w.list(path, key); len(list) > 0 {
			return list[rng.IntN(len(list))]["id"].(string)
		}
		return "none"
	}
	credentials := "/v3/users/" + w.user + "/application_credentials"
	switch rng.IntN(4) {
	case 0:
		text := login(w.t, w.server, "admin", "admin")
		noted := w.last.Changes
		w.tokens[text] = auditOf(w.t, w.send("GET", "/v3/auth/tokens", "", "X-Subject-Token", text).body)
		return noted
	case 1:
		w.send("DELETE", "/v3/auth/tokens", "", "X-Subject-Token", pick(slices.Sorted(maps.Keys(w.tokens))...))
	case 2:
		w.send("POST", credentials, fmt.Sprintf(`{"application_credential":{"name":%q,"secret":"hidden"}}`, pick("a", "b")))
	case 3:
		w.send("DELETE", credentials+"/"+some(credentials, "application_credentials"), "")
	}
	return w.last.Changes
}

func auditOf(t *testing.T, body string) string {
	t.Helper()
	var answer struct {
		Token struct {
			AuditIDs []string `json:"audit_ids"`
		} `json:"token"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Token.AuditIDs) == 0 {
		t.Fatal(err, body)
	}
	return answer.Token.AuditIDs[0]
}

func TestTheRecordedChangesAreTheDifference(t *testing.T) {
	t.Parallel()
	told := make(map[string]int)
	for seed := range uint64(5) {
		w, rng := newChangesWorld(t), rand.New(rand.NewPCG(seed, 0))
		text := issue(t, w.server, "demo")
		w.tokens[text] = auditOf(t, w.send("GET", "/v3/auth/tokens", "", "X-Subject-Token", text).body)
		for range 120 {
			before := w.things()
			noted := []string{}
			for _, c := range w.do(rng) {
				noted = append(noted, c.Action+" "+c.Kind+" "+c.ID)
				told[c.Action+" "+c.Kind]++
				for text := range w.tokens {
					if strings.Contains(c.ID+c.What, text) || strings.Contains(c.What, "hidden") {
						t.Fatalf("a secret is noted: %+v", c)
					}
				}
			}
			slices.Sort(noted)
			if diff := cmp.Diff(until(before, w.things()), noted); diff != "" {
				t.Fatalf("seed %d: %s %s: what differs and what is noted (-differs +noted):\n%s", seed, w.last.Method, w.last.Path, diff)
			}
		}
	}
	for _, kind := range []string{"token", "application_credential"} {
		for _, action := range []string{"created", "deleted"} {
			if told[action+" "+kind] == 0 {
				t.Errorf("the requests never %s a %s", action, kind)
			}
		}
	}
}

func until(before, after map[[2]string]string) []string {
	diff := []string{}
	for key, value := range before {
		if now, still := after[key]; !still {
			diff = append(diff, "deleted "+key[0]+" "+key[1])
		} else if now != value {
			diff = append(diff, "changed "+key[0]+" "+key[1])
		}
	}
	for key := range after {
		if _, there := before[key]; !there {
			diff = append(diff, "created "+key[0]+" "+key[1])
		}
	}
	slices.Sort(diff)
	return diff
}
