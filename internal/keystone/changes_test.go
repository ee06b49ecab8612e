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

// changesWorld is an identity service with an administrator who does all sorts of things.
type changesWorld struct {
	t       *testing.T
	server  *keystone.Server
	last    sim.Exchange
	tokens  map[string]string // audit ids by token
	token   string
	user    string // paths and ids
	service string
	project string
}

func newChangesWorld(t *testing.T) *changesWorld {
	t.Helper()
	w := &changesWorld{t: t, server: newServer(), tokens: make(map[string]string)}
	w.server.Service().Observe = func(e sim.Exchange) { w.last = e }
	w.token = login(t, w.server, "admin", "admin")
	header, err := w.server.VerifyToken(w.token)
	if err != nil {
		t.Fatal(err)
	}
	w.user, w.project = header.Get("X-User-Id"), header.Get("X-Project-Id")
	w.service = w.list("/v3/services?type=placement", "services")[0]["id"].(string)
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
	for kind, path := range map[string]string{
		"application_credential": "/v3/users/" + w.user + "/application_credentials",
		"registered_limit":       "/v3/registered_limits", "limit": "/v3/limits",
	} {
		for _, item := range w.list(path, kind+"s") {
			all[[2]string{kind, item["id"].(string)}] = fmt.Sprint(item)
		}
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
	resource := pick("class:FPGA", "class:VCPU")
	switch rng.IntN(10) {
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
	case 4:
		w.send("POST", "/v3/registered_limits", fmt.Sprintf(`{"registered_limits":[{"service_id":%q,"resource_name":%q,"default_limit":3}]}`, w.service, resource))
	case 5:
		w.send("PATCH", "/v3/registered_limits/"+some("/v3/registered_limits", "registered_limits"),
			pick(`{"registered_limit":{"default_limit":3}}`, `{"registered_limit":{"default_limit":4}}`, `{"registered_limit":{"description":""}}`))
	case 6:
		w.send("DELETE", "/v3/registered_limits/"+some("/v3/registered_limits", "registered_limits"), "")
	case 7:
		w.send("POST", "/v3/limits", fmt.Sprintf(`{"limits":[{"service_id":%q,"resource_name":%q,"resource_limit":5,"project_id":%q}]}`, w.service, resource, w.project))
	case 8:
		w.send("PATCH", "/v3/limits/"+some("/v3/limits", "limits"), pick(`{"limit":{"resource_limit":5}}`, `{"limit":{"resource_limit":6}}`))
	case 9:
		w.send("DELETE", "/v3/limits/"+some("/v3/limits", "limits"), "")
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

func TestEveryRequestTellsExactlyWhatItChanged(t *testing.T) {
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
	for _, kind := range []string{"token", "application_credential", "registered_limit", "limit"} {
		for _, action := range []string{"created", "changed", "deleted"} {
			if mayChange := strings.HasSuffix(kind, "limit"); told[action+" "+kind] == 0 && (action != "changed" || mayChange) {
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
