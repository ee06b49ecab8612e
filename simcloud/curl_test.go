package simcloud_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/simcloud"
)

// outcome is a line of the script's output, and expected one of its comments.
var (
	outcome  = regexp.MustCompile(`(?m)^(\d{3})$`)
	expected = regexp.MustCompile(`(?m)^# .*: (\d{3})\nsend`)
)

func firsts(matches [][]string) []string {
	var list []string
	for _, m := range matches {
		list = append(list, m[1])
	}
	return list
}

// The script is run by a real bash, with a real curl, against a new cloud of the model,
// by a user whose password a shell would like to interpret.
func TestTheScriptDoesWhatWasRecorded(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl", "sed"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s", program)
		}
	}
	const password = `a"b\c&d$(e)'f%s`
	model := recordModel()
	model.Users = []simcloud.User{{Name: "ops", Password: password, Roles: map[string][]string{"lab": {"admin"}}}}
	cloud := simcloud.Run(t, model)
	u := login(t, cloud, "admin", "admin")
	s := u.spawn(1, "gpu", "PGPU:1", "")
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/placement/resource_providers?name=it's%20$(here)", ""},
		{"HEAD", "/identity/v3", ""},
		{"PUT", "/placement/traits/CUSTOM_A", ""},
		{"POST", "/accelerator/v2/device_profiles", `[{"name": "bad name", "groups": [{"resources:PGPU": "1"}]}]`},
		{"POST", "/accelerator/v2/device_profiles", "@/etc/hostname"},
		{"GET", "/placement/../placement/{a}[1-3]", ""},
	} {
		u.send(r.method, r.path, "", r.body)
	}
	u.remove(s)
	u.token = "wrong"
	u.send("GET", "/accelerator/v2/devices", accelerator, "")

	script := filepath.Join(t.TempDir(), "requests.sh")
	file, err := os.Create(script)
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.WriteCurl(file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	want := firsts(expected.FindAllStringSubmatch(string(text), -1))

	again := simcloud.Run(t, model)
	server := httptest.NewServer(again.Handler())
	defer server.Close()
	service, err := again.ServiceToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "bash", script)
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "OS_AUTH_URL=" + server.URL + "/identity/v3", "OS_USERNAME=ops", "OS_PASSWORD=" + password,
		"OS_PROJECT_NAME=lab", "OS_SERVICE_TOKEN=" + service,
	}
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := cmp.Diff(want, firsts(outcome.FindAllStringSubmatch(string(out), -1))); diff != "" {
		t.Errorf("statuses (-recorded +again):\n%s\n%s", diff, out)
	}
	if len(want) < 10 || !strings.Contains(string(text), "not-valid") {
		t.Errorf("the script sends only %d requests", len(want))
	}
	sent := func(c *simcloud.Cloud) []string {
		var list []string
		for _, r := range c.Requests() {
			if !r.Internal && r.Operation != "identity.token.create" {
				list = append(list, r.Method+" "+r.Path+"?"+r.Query+" "+r.Body)
			}
		}
		return list
	}
	if diff := cmp.Diff(sent(cloud), sent(again)); diff != "" {
		t.Errorf("requests (-recorded +again):\n%s", diff)
	}
}
