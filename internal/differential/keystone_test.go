//go:build differential

package differential_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/internal/differential"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestKeystoneDiffersAsListed(t *testing.T) {
	t.Parallel()
	_, there := stateDirectory(t)
	theirs := newSide("the real Keystone", startReal(t, "../../cmd/cysim/testdata/oracle/keystone.py", there), realTransport())
	model, end := keystoneOfCloud(t)
	furnish(t, theirs, model)
	end()
	run.Compare(t, 800, func(seed uint64, requests int, judges []*differential.Judge) {
		for world := run.World; requests > 0; world++ {
			requests -= runKeystoneWorld(t, theirs, seed, world, min(requests, 200), judges[0])
		}
	}, differential.Keystone())
}

// keystoneOfCloud is the Keystone of a new cloud, which compares names as SQLite does.
func keystoneOfCloud(t *testing.T) (*side, func()) {
	t.Helper()
	cloud, err := simcloud.New(t.Context(), simcloud.Model{TokenLifetime: 24 * time.Hour, Collation: sim.CollationBinary})
	if err != nil {
		t.Fatal(err)
	}
	s := newSide("Keystone", cloud.URL(), cloud.Transport())
	login(t, s, s)
	return s, func() { _ = cloud.Close() }
}

type object = map[string]any

// listed reads a list of Keystone as the administrator.
func listed(t *testing.T, s *side, target, key string) []object {
	t.Helper()
	got := s.send(t, request{method: "GET", target: target, header: [][2]string{{"X-Auth-Token", tokenOf("admin")}}})
	var body map[string]json.RawMessage
	var items []object
	if err := json.Unmarshal([]byte(got.body), &body); err != nil || json.Unmarshal(body[key], &items) != nil {
		t.Fatalf("%s: %s: %d %s", s.name, target, got.status, got.body)
	}
	return items
}

// kinds of objects that both services have, with what identifies one in each.
var keystoneKinds = []struct {
	plural, kind, label string
	key                 func(object, func(id any) string) string
}{
	{"projects", "project", "a1", func(o object, _ func(any) string) string { return fmt.Sprint(o["name"]) }},
	{"users", "user", "a2", func(o object, _ func(any) string) string { return fmt.Sprint(o["name"]) }},
	{"roles", "role", "a3", func(o object, _ func(any) string) string { return fmt.Sprint(o["name"]) }},
	{"services", "service", "a4", func(o object, _ func(any) string) string { return fmt.Sprint(o["type"]) }},
	{"endpoints", "endpoint", "a5", func(o object, label func(any) string) string {
		return label(o["service_id"]) + fmt.Sprint(o["interface"])
	}},
}

func objectLabel(prefix string, i int) string { return fmt.Sprintf("%s%030d", prefix, i) }

// furnish makes in the real service what the model has, and labels all objects of both by the same names.
func furnish(t *testing.T, theirs, model *side) {
	t.Helper()
	keystoneLogin(t, theirs, "admin")
	send := func(method, target string, body any) {
		req := request{method: method, target: target, body: asJSON(body), header: [][2]string{{"X-Auth-Token", tokenOf("admin")}, {"Content-Type", json1}}}
		if got := theirs.send(t, req); got.status >= 300 {
			t.Fatalf("%s: %d %s", req, got.status, got.body)
		}
	}
	for _, kind := range keystoneKinds {
		labels := labelObjects(t, model, kind.plural, kind.label, kind.key)
		have := make(map[string]string)
		for _, o := range listed(t, theirs, "/v3/"+kind.plural, kind.plural) {
			have[kind.key(o, func(id any) string { return theirs.labelled(fmt.Sprint(id)) })] = fmt.Sprint(o["id"])
		}
		for _, o := range listed(t, model, "/v3/"+kind.plural, kind.plural) {
			if id := have[kind.key(o, func(id any) string { return fmt.Sprint(id) })]; id != "" {
				if kind.kind == "project" { // Keystone's bootstrap describes its project
					send("PATCH", "/v3/projects/"+id, object{"project": object{"description": o["description"]}})
				}
				continue
			}
			delete(o, "id")
			delete(o, "links")
			if kind.kind == "user" {
				o["password"] = simcloud.Password
				delete(o, "password_expires_at")
			}
			send("POST", "/v3/"+kind.plural, object{kind.kind: o})
		}
		for key, label := range labelObjects(t, theirs, kind.plural, kind.label, kind.key) {
			if labels[key] != label {
				t.Fatalf("%s of the real Keystone that the model lacks: %s", kind.plural, key)
			}
		}
	}
	for _, o := range listed(t, model, "/v3/role_assignments", "role_assignments") {
		scope, _ := o["scope"].(object)
		project, ok := scope["project"].(object)
		if !ok {
			continue
		}
		id := func(key string) string { return fmt.Sprint(o[key].(object)["id"]) }
		req := request{method: "PUT", target: fmt.Sprintf("/v3/projects/%v/users/%s/roles/%s", project["id"], id("user"), id("role")), header: [][2]string{{"X-Auth-Token", tokenOf("admin")}}}
		if got := theirs.send(t, req); got.status != http.StatusNoContent {
			t.Fatalf("%s: %d %s", req, got.status, got.body)
		}
	}
	login(t, theirs, theirs)
}

// keystoneLogin gives a side the token of one user in the project of the same name.
func keystoneLogin(t *testing.T, s *side, user string) {
	t.Helper()
	got := s.send(t, request{method: "POST", target: "/v3/auth/tokens", body: asJSON(passwordLogin(user, simcloud.Password, user)), header: [][2]string{{"Content-Type", json1}}})
	if got.status != http.StatusCreated {
		t.Fatalf("%s: token of %s: %d %s", s.name, user, got.status, got.body)
	}
	s.names[tokenOf(user)] = got.header.Get("X-Subject-Token")
}

// labelObjects labels the objects of a kind by their keys in order.
func labelObjects(t *testing.T, s *side, plural, prefix string, key func(object, func(any) string) string) map[string]string {
	t.Helper()
	byKey := make(map[string]string)
	for _, o := range listed(t, s, "/v3/"+plural, plural) {
		byKey[key(o, func(id any) string { return s.labelled(fmt.Sprint(id)) })] = fmt.Sprint(o["id"])
	}
	labels := make(map[string]string)
	for i, k := range slices.Sorted(maps.Keys(byKey)) {
		labels[k] = objectLabel(prefix, i)
		s.names[labels[k]] = byKey[k]
	}
	return labels
}

// runKeystoneWorld asks about one world, which ends at the first write that only one service did, and returns how many
// random requests it saw.
func runKeystoneWorld(t *testing.T, theirs *side, seed uint64, world, n int, judge *differential.Judge) int {
	t.Helper()
	judge.At(seed, world)
	ours, end := keystoneOfCloud(t)
	defer end()
	for _, kind := range keystoneKinds {
		labelObjects(t, ours, kind.plural, kind.label, kind.key)
	}
	for _, s := range []*side{theirs, ours} {
		login(t, s, s)
		got := s.send(t, request{method: "POST", target: "/v3/auth/tokens", body: asJSON(passwordLogin("admin", simcloud.Password, "")), header: [][2]string{{"Content-Type", json1}}})
		s.names[unscopedToken] = got.header.Get("X-Subject-Token")
	}
	w := &keystoneWorld{draws: newDraws(seed, world), ids: labelsOf(t, ours)}
	compare := keystoneComparison()
	asked := 0
	for asked < n {
		req := w.next()
		asked++
		want, got := theirs.send(t, req), ours.send(t, req)
		created, both := w.learn(req, theirs, want), w.learn(req, ours, got)
		if created && both {
			w.credentials++
		}
		judge.Add(compare.Differences(req.String(), relabelled(want, theirs), relabelled(got, ours)))
		if !isRead(req) && !strings.HasPrefix(req.path(), "/v3/auth/") && (want.status < 300) != (got.status < 300) {
			break
		}
	}
	for _, user := range []string{"admin", "demo"} { // what the world made in the real service
		target := "/v3/users/" + w.ids.user[user] + "/application_credentials"
		token := [][2]string{{"X-Auth-Token", tokenOf(user)}}
		got := theirs.send(t, request{method: "GET", target: target, header: token})
		var body struct {
			List []struct{ ID string } `json:"application_credentials"`
		}
		if json.Unmarshal([]byte(got.body), &body) != nil {
			continue
		}
		for _, item := range body.List {
			theirs.send(t, request{method: "DELETE", target: target + "/" + item.ID, header: token})
		}
	}
	for label := range theirs.names {
		if strings.HasPrefix(label, "a9") || strings.HasPrefix(label, "SECRET-") {
			delete(theirs.names, label)
		}
	}
	return asked
}

// labelsOf are the labels of users, projects and roles by name.
func labelsOf(t *testing.T, s *side) (ids struct{ user, project, role map[string]string }) {
	t.Helper()
	of := func(plural string) map[string]string {
		labels := make(map[string]string)
		for _, o := range listed(t, s, "/v3/"+plural, plural) {
			labels[fmt.Sprint(o["name"])] = fmt.Sprint(o["id"])
		}
		return labels
	}
	ids.user, ids.project, ids.role = of("users"), of("projects"), of("roles")
	return ids
}

func keystoneComparison() differential.Comparison {
	return differential.Comparison{
		Known: func(id string) bool { return len(id) == 32 && id[0] == 'a' && id[2:20] == strings.Repeat("0", 18) },
		Text: func(body any) (string, any) {
			fields, _ := body.(object)
			inner, _ := fields["error"].(object)
			text, ok := inner["message"].(string)
			if ok {
				delete(inner, "message")
			}
			return text, body
		},
	}
}
