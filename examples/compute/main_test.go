package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/guests"
)

const instance = "0a1b2c3d-0000-4000-8000-000000000002"

// novaConf writes the nova.conf of a cloud.
func novaConf(t *testing.T, server string) string {
	t.Helper()
	var conf strings.Builder
	for _, section := range []string{"service_user", "placement"} {
		fmt.Fprintf(&conf, "[%s]\nauth_type = password\nauth_url = %s/identity/v3\nusername = nova\npassword = %s\nproject_name = service\nuser_domain_name = Default\nproject_domain_name = Default\n",
			section, server, simcloud.Password)
	}
	conf.WriteString("[service_user]\nsend_service_user_token = true\n")
	path := filepath.Join(t.TempDir(), "nova.conf")
	if err := os.WriteFile(path, []byte(conf.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheUserOfARequestGetsTheAccelerators(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	server := httptest.NewServer(cloud.Handler())
	t.Cleanup(server.Close)
	agent, err := newAgent(t.Context(), novaConf(t, server.URL), guests.New(cloud))
	if err != nil {
		t.Fatal(err)
	}
	user, err := cloud.ProviderClient(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range []struct {
		method, path, token string
		want                int
		text                string
	}{
		{"PUT", "/instances/" + instance + "?profile=gpu", "unknown", http.StatusUnauthorized, "does not know the token"},
		{"PUT", "/instances/" + instance, user.Token(), http.StatusBadRequest, "no device profile"},
		{"PUT", "/instances/" + instance + "?profile=a%20b", user.Token(), http.StatusBadRequest, "a b"},
		{"PUT", "/instances/" + instance + "?profile=nope", user.Token(), http.StatusBadRequest, "nope"},
		{"PUT", "/instances/" + instance + "?profile=gpu", user.Token(), http.StatusOK, cloud.ProjectID("demo")},
		{"DELETE", "/instances/" + instance, user.Token(), http.StatusOK, "released"},
	} {
		if request.method == "DELETE" {
			cloud.CheckNoLeaks(t)
			if len(cloud.Guests()) != 1 {
				t.Errorf("%d guests", len(cloud.Guests()))
			}
		}
		r := httptest.NewRequestWithContext(t.Context(), request.method, request.path, nil)
		r.Header.Set("X-Auth-Token", request.token)
		w := httptest.NewRecorder()
		agent.ServeHTTP(w, r)
		if w.Code != request.want || !strings.Contains(w.Body.String(), request.text) {
			t.Errorf("%s %s: %d %s, want %d with %q", request.method, request.path, w.Code, w.Body, request.want, request.text)
		}
	}
	cloud.CheckNoLeaks(t)
}
