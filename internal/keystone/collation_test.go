package keystone_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/sim"
)

// The answers of Keystone 30 on MariaDB 11.8, and what it answers to unknown names.
func TestNamesCompareAsInTheDatabase(t *testing.T) {
	t.Parallel()
	for _, collation := range []sim.Collation{sim.CollationMySQL, sim.CollationBinary} {
		t.Run(string(collation), func(t *testing.T) {
			t.Parallel()
			server := keystone.New(keystone.Config{Seed: 7, Services: services, Collation: collation})
			token := issue(t, server, "admin")
			id := func(path, name string) string {
				var body map[string][]struct{ ID, Name string }
				_ = json.Unmarshal([]byte(send(t, server, "GET", "/v3/"+path, "", "X-Auth-Token", token).body), &body) // an unknown one has no id
				for _, item := range body[path] {
					if item.Name == name {
						return strings.ToUpper(item.ID)
					}
				}
				return ""
			}
			user, project := id("users", "admin"), id("projects", "admin")
			credentials := "/v3/users/" + strings.ToLower(user) + "/application_credentials"
			login := func(user, project string) string {
				return `{"auth":{"identity":{"methods":["password"],"password":{"user":{` + user + `,"password":"secret"}}},"scope":{"project":{` + project + `}}}}`
			}
			inDomain := func(name, domain string) string { return `"name":"` + name + `","domain":{` + domain + `}` }
			admin := inDomain("admin", `"id":"default"`)
			for _, tt := range []struct {
				name, method, path, body string
				mysql, binary            int
				contains                 string // with MariaDB; the binary answer does not have it
			}{
				{"user", "POST", "/v3/auth/tokens", login(inDomain("ÁDMIN ", `"name":"default"`), admin), 201, 401, ""},
				{"user with a leading blank", "POST", "/v3/auth/tokens", login(inDomain(" admin", `"id":"default"`), admin), 401, 401, ""},
				{"id of a user", "POST", "/v3/auth/tokens", login(`"id":"`+user+`"`, admin), 201, 401, ""},
				{"id of a project", "POST", "/v3/auth/tokens", login(admin, `"id":"`+project+`"`), 201, 401, ""},
				{"project", "POST", "/v3/auth/tokens", login(admin, inDomain("Admin", `"name":"DÉFAULT"`)), 201, 401, ""},
				{"id of a domain", "POST", "/v3/auth/tokens", login(inDomain("admin", `"id":"DEFAULT"`), admin), 401, 401, ""}, // in Python
				{"users by name", "GET", "/v3/users?name=ADMIN", "", 200, 200, `"name":"admin"`},
				{"users by a part", "GET", "/v3/users?name__contains=DMI", "", 200, 200, ""},
				{"domains by name", "GET", "/v3/domains?name=DEFAULT", "", 200, 200, `"name":"Default"`},
				{"roles by name", "GET", "/v3/roles?name=ADMIN", "", 200, 200, `"name":"admin"`},
				{"a user", "GET", "/v3/users/" + user, "", 200, 404, ""},
				{"a project", "GET", "/v3/projects/" + project, "", 200, 404, ""},
				{"a domain", "GET", "/v3/domains/DEFAULT", "", 404, 404, ""},
				{"a region", "GET", "/v3/regions/REGIONONE", "", 200, 404, ""},
				{"projects of a user", "GET", "/v3/users/" + user + "/projects", "", 200, 404, ""},
				{"a credential", "POST", credentials, `{"application_credential":{"name":"Foo","access_rules":[{"path":"/a","method":"GET","service":"compute"}]}}`, 201, 201, ""},
				{"a second credential", "POST", credentials, `{"application_credential":{"name":"fóo ","roles":[{"name":"admin"}]}}`, 409, 201, ""},
				{"a role of a credential", "POST", credentials, `{"application_credential":{"name":"other","roles":[{"name":"MEMBER"}]}}`, 201, 404, ""},
				{"credentials by name", "GET", credentials + "?name=FOO", "", 200, 200, `"name":"Foo"`},
				{"an access rule in another spelling", "POST", credentials, `{"application_credential":{"name":"third","access_rules":[{"path":"/A","method":"GET","service":"COMPUTE"}]}}`, 201, 201, `"path":"/a"`},
			} {
				res := send(t, server, tt.method, tt.path, tt.body, "X-Auth-Token", token)
				want := map[sim.Collation]int{sim.CollationMySQL: tt.mysql, sim.CollationBinary: tt.binary}[collation]
				if res.StatusCode != want {
					t.Errorf("%s: got %d %s, want %d", tt.name, res.StatusCode, res.body, want)
				}
				if has := strings.Contains(res.body, tt.contains); tt.contains != "" && has != (collation == sim.CollationMySQL) {
					t.Errorf("%s: has %s: %t, %s", tt.name, tt.contains, has, res.body)
				}
			}
		})
	}
}
