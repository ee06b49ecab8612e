package session_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/internal/session"
)

func TestTransportTrustsTheAuthoritiesOfOSCACERT(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, []byte("no certificate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"": "", empty: empty + " has no certificate", empty + ".none": "no such file"} {
		t.Setenv("OS_CACERT", file)
		transport, err := session.Transport("https://cloud.example")
		switch {
		case want == "":
			if err != nil || transport == nil {
				t.Errorf("without a file: %v, %v", transport, err)
			}
		case err == nil || !strings.Contains(err.Error(), "OS_CACERT: ") || !strings.Contains(err.Error(), want):
			t.Errorf("%s: got %v, want an error with %q", file, err, want)
		}
		if transport, err := session.Transport("HTTP://127.0.0.1:1"); err != nil || transport == nil {
			t.Errorf("%s, without TLS: %v, %v", file, transport, err)
		}
	}
}

func TestACloudWithoutAuthIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	for _, text := range []string{"clouds: {x: {region_name: r}}", "clouds: {x: }", "clouds: {x: {}}", "clouds: {x: {auth: }}", "clouds: &c {x: *c}"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, variable := range map[string]string{"x": "", "": "x"} {
			t.Setenv("OS_CLOUD", variable)
			_, err := session.ReadCloud(name)
			if err == nil || !strings.Contains(err.Error(), `cloud "x" from `+file) {
				t.Errorf("%s: got %v, want an error that names the cloud and its file", text, err)
			}
		}
	}
}

func TestWithoutACloudTheErrorSaysWhatToSet(t *testing.T) {
	t.Setenv("OS_CLOUD", "")
	t.Setenv("OS_AUTH_URL", "")
	if _, err := session.ReadCloud(""); err == nil || !strings.Contains(err.Error(), "OS_CLOUD and OS_AUTH_URL are not set") {
		t.Errorf("got %v", err)
	}
}

// TestFilesOfClouds looks for the files of a cloud below a new directory, whose "work" is the working directory. The region
// of the cloud shows which files were read.
func TestFilesOfClouds(t *testing.T) {
	const (
		empty  = "clouds: {x: {region_name: none}}"
		login  = "clouds: {x: {region_name: %s, auth: {auth_url: http://keystone.example/v3}}}"
		user   = "home/.config/openstack/"
		config = "OS_CLIENT_CONFIG_FILE"
		secret = "OS_CLIENT_SECURE_FILE"
	)
	auth := func(region string) string { return fmt.Sprintf(login, region) }
	for _, row := range []struct {
		name  string
		files map[string]string
		env   map[string]string // relative to the directory
		want  string            // the region
		err   string            // a part of the error
	}{
		{"named", map[string]string{"conf/a.yaml": auth("named"), "work/clouds.yaml": auth("work")}, map[string]string{config: "conf/a.yaml"}, "named", ""},
		{"secure.yaml next to the named file", map[string]string{"conf/clouds.yaml": empty, "conf/secure.yaml": auth("next"), "work/secure.yaml": auth("work")},
			map[string]string{config: "conf/clouds.yaml"}, "next", ""},
		{"secure.yaml elsewhere than the named file", map[string]string{"conf/clouds.yaml": empty, "work/secure.yaml": auth("work"), user + "secure.yaml": auth("user")},
			map[string]string{config: "conf/clouds.yaml"}, "work", ""},
		{"both named", map[string]string{"conf/a.yaml": empty, "conf/b.yaml": auth("b"), "conf/secure.yaml": auth("next")},
			map[string]string{config: "conf/a.yaml", secret: "conf/b.yaml"}, "b", ""},
		{"without a home", map[string]string{"conf/clouds.yaml": empty, "conf/secure.yaml": auth("next")},
			map[string]string{config: "conf/clouds.yaml", "HOME": ""}, "next", ""},
		{"the working directory first", map[string]string{"work/clouds.yaml": auth("work"), user + "clouds.yaml": auth("user")}, nil, "work", ""},
		{"the user's directory", map[string]string{user + "clouds.yaml": empty, user + "secure.yaml": auth("user")}, nil, "user", ""},
		{"clouds.yaml and secure.yaml apart", map[string]string{"work/clouds.yaml": empty, user + "secure.yaml": auth("user")}, nil, "user", ""},
		{"the working directory's secure.yaml first", map[string]string{user + "clouds.yaml": empty, user + "secure.yaml": auth("user"), "work/secure.yaml": auth("work")}, nil, "work", ""},
		{"XDG_CONFIG_HOME", map[string]string{"xdg/openstack/clouds.yaml": empty, "xdg/openstack/secure.yaml": auth("xdg"), user + "clouds.yaml": auth("user")},
			map[string]string{"XDG_CONFIG_HOME": "xdg"}, "xdg", ""},
		{"a profile next to the named file", map[string]string{
			"conf/clouds.yaml":        "clouds: {x: {profile: p, region_name: named, auth: {username: u}}}",
			"conf/clouds-public.yaml": "public-clouds: {p: {auth: {auth_url: http://keystone.example/v3}}}",
		}, map[string]string{config: "conf/clouds.yaml"}, "named", ""},

		{"the named file is missing", map[string]string{"work/clouds.yaml": auth("work")}, map[string]string{config: "conf/a.yaml"}, "", config + ": open "},
		{"the named secure.yaml is missing", map[string]string{"work/clouds.yaml": auth("work")}, map[string]string{secret: "conf/b.yaml"}, "", secret + ": open "},
		{"no file", nil, nil, "", "there is no clouds.yaml in "},
		{"no such cloud", map[string]string{"work/clouds.yaml": "clouds: {y: {}}"}, nil, "", "work/clouds.yaml: "},
		{"clouds.yaml is not YAML", map[string]string{"work/clouds.yaml": "clouds: {"}, nil, "", "work/clouds.yaml: "},
		{"secure.yaml is not YAML", map[string]string{"work/clouds.yaml": auth("work"), "work/secure.yaml": "clouds: {"}, nil, "", "work/secure.yaml: "},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range row.files {
				file := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			work := filepath.Join(dir, "work")
			if err := os.MkdirAll(work, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Chdir(work)
			env := map[string]string{config: "", secret: "", "XDG_CONFIG_HOME": "", "HOME": "home"}
			maps.Copy(env, row.env)
			for name, file := range env {
				if file != "" {
					file = filepath.Join(dir, file)
				}
				t.Setenv(name, file)
			}
			cloud, err := session.ReadCloud("x")
			if cloud.Endpoint.Region != row.want || (err == nil) != (row.err == "") || !strings.Contains(fmt.Sprint(err), row.err) {
				t.Errorf("region %q, %v, want %q, %q", cloud.Endpoint.Region, err, row.want, row.err)
			}
		})
	}
}

func TestTheURLOfALoginHasNoPassword(t *testing.T) {
	t.Setenv("OS_USERNAME", "u")
	t.Setenv("OS_PASSWORD", "p")
	t.Setenv("OS_CLOUD", "")
	for _, url := range []string{"http://u:hunter2@127.0.0.1:1/v3", "http://u:%zzhunter2@127.0.0.1:1/v3"} {
		t.Setenv("OS_AUTH_URL", url)
		cloud, err := session.ReadCloud("")
		if err == nil {
			_, err = cloud.LogIn(t.Context(), nil)
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "the URL of Keystone") {
			t.Errorf("%v", err)
		}
	}
}

func TestNoErrorOfALoginHasThePassword(t *testing.T) {
	const password = "correct-horse"
	tokens := 0
	keystone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || tokens == 0 {
			http.Error(w, "cannot route "+string(body), http.StatusBadGateway)
			return
		}
		tokens--
		w.Header().Set("X-Subject-Token", "a-token")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"token": {"expires_at": "2099-01-01T00:00:00.000000Z", "catalog": []}}`)
	}))
	t.Cleanup(keystone.Close)
	t.Setenv("OS_AUTH_URL", keystone.URL+"/v3")
	t.Setenv("OS_USERNAME", "u")
	t.Setenv("OS_PASSWORD", password)
	t.Setenv("OS_PROJECT_NAME", "p")
	t.Setenv("OS_USER_DOMAIN_NAME", "d")
	t.Setenv("OS_PROJECT_DOMAIN_NAME", "d")
	t.Setenv("OS_CLOUD", "")
	cloud, err := session.ReadCloud("")
	if err != nil {
		t.Fatal(err)
	}
	_, refused := cloud.LogIn(t.Context(), nil)
	tokens = 1
	provider, err := cloud.LogIn(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for step, err := range map[string]error{"log in": refused, "log in again": provider.Reauthenticate(t.Context(), "a-token")} {
		var answer gophercloud.ErrUnexpectedResponseCode
		if !errors.As(err, &answer) || !strings.Contains(err.Error(), "cannot route") {
			t.Fatalf("%s: %v, want what the server says", step, err)
		}
		if text := err.Error() + string(answer.Body); strings.Contains(text, password) {
			t.Errorf("%s: the error has the password: %s", step, text)
		}
	}
}

func TestNoErrorOfALoginHasTheToken(t *testing.T) {
	const token = "hunter2pw"
	keystone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		http.Error(w, "cannot route "+string(body), http.StatusBadGateway)
	}))
	t.Cleanup(keystone.Close)
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	text := fmt.Sprintf("clouds: {x: {auth_type: token, auth: {auth_url: %q, token: %s, project_id: p}}}", keystone.URL+"/v3", token)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cloud, err := session.ReadCloud("x")
	if err != nil {
		t.Fatal(err)
	}
	_, err = cloud.LogIn(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "cannot route") || strings.Contains(err.Error(), token) {
		t.Errorf("%v, want what the server says without the token", err)
	}
}

// A proxy before Keystone may answer with a page of any length, or quote a password at the end of what is shown.
func TestTheAnswerOfALoginIsShortened(t *testing.T) {
	for name, page := range map[string]string{
		"long":                strings.Repeat("x", 3<<20),
		"a password at 1 KiB": strings.Repeat("x", 1010) + "correct-horse" + strings.Repeat("x", 1<<20),
	} {
		for _, status := range []int{http.StatusOK, http.StatusCreated, http.StatusForbidden, http.StatusBadGateway} {
			for _, kind := range []string{"text/html; charset=utf-8", "application/json"} {
				keystone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", kind)
					w.WriteHeader(status)
					_, _ = io.WriteString(w, page)
				}))
				t.Setenv("OS_AUTH_URL", keystone.URL+"/v3")
				t.Setenv("OS_USERNAME", "u")
				t.Setenv("OS_PASSWORD", "correct-horse")
				t.Setenv("OS_USER_DOMAIN_NAME", "d")
				t.Setenv("OS_CLOUD", "")
				cloud, err := session.ReadCloud("")
				if err != nil {
					t.Fatal(err)
				}
				_, err = cloud.LogIn(t.Context(), nil)
				switch text := fmt.Sprint(err); {
				case err == nil || len(text) > 2<<10 || strings.Contains(fmt.Sprintf("%+v %#v", err, errors.Unwrap(err)), "correct-hor"):
					t.Errorf("%s, %d, %s: %d bytes: %.3000s", name, status, kind, len(text), text)
				case status < 300 && kind != "application/json" && !strings.Contains(text, keystone.URL+`/v3/auth/tokens": answered `):
					t.Errorf("%s, %d, %s: %s, want the URL and that it is HTML", name, status, kind, text)
				}
				keystone.Close()
			}
		}
	}
}
