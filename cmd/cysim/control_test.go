package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// shell is a shell of a user with a server.
type shell struct {
	t   *testing.T
	url string
}

func openShell(t *testing.T, args ...string) shell {
	t.Helper()
	return shell{t, start(t, args...).env["CYSIM_URL"]}
}

// run runs a command for the server and returns its exit status and output.
func (c shell) run(args ...string) (status int, stdout, stderr string) {
	c.t.Helper()
	return cysim(c.t, append(args, "--url", c.url)...)
}

// do runs a command that has to succeed, and returns its output.
func (c shell) do(args ...string) string {
	c.t.Helper()
	status, stdout, stderr := c.run(args...)
	if status != 0 || stderr != "" {
		c.t.Fatalf("cysim %s: %d %s%s", strings.Join(args, " "), status, stdout, stderr)
	}
	return stdout
}

// decode runs a command with -o json that has to succeed.
func decode[T any](c shell, args ...string) (value T) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.do(append(args, "-o", "json")...)), &value); err != nil {
		c.t.Fatalf("cysim %s: %v", strings.Join(args, " "), err)
	}
	return value
}

const someInstance = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"

func TestFaultCommands(t *testing.T) {
	t.Parallel()
	c := openShell(t, "serve")
	rule := fault.Rule{Operation: fault.ARQBind, Subject: "a", Nth: 2, Times: 3, When: fault.After, Action: fault.Status, Status: 503, Code: "x"}
	c.do("fault", "add", "accelerator.*", "proxy", "--status", "503", "--times", "all")
	c.do("fault", "add", "accelerator.arq.bind", "status", "--subject", "a", "--nth", "2", "--times", "3", "--when", "after", "--status", "503", "--code", "x")
	c.do("fault", "add", "compute.version.get", "delay", "--delay", "90s", "--probability", "0.5")
	want := []fault.State{
		{Rule: fault.Rule{Operation: "accelerator.*", Action: fault.Proxy, Status: 503, Times: -1}},
		{Rule: rule}, {Rule: fault.Rule{Operation: fault.ComputeVersionGet, Action: fault.Delay, Delay: 90 * time.Second, Probability: 0.5}},
	}
	if diff := cmp.Diff(want, decode[[]fault.State](c, "fault", "list")); diff != "" {
		t.Errorf("the rules (-want +got):\n%s", diff)
	}
	table := c.do("fault")
	for _, words := range []string{
		"accelerator.* any 1 and all later before proxy 503 0", "accelerator.arq.bind a 2 to 4 after status 503 x 0",
		"compute.version.get any 1 and all later, each with probability 0.5 before delay 1m30s 0",
	} {
		if !strings.Contains(strings.Join(strings.Fields(table), " "), words) {
			t.Errorf("no %q in\n%s", words, table)
		}
	}
	if status, body := get(t, c.url+"/accelerator/v2/accelerator_requests", ""); status != http.StatusServiceUnavailable {
		t.Errorf("while Cyborg is down: %d %s", status, body)
	}
	c.do("fault", "clear")
	if got := c.do("fault", "list"); got != "no fault rules\n" {
		t.Errorf("after clear: %s", got)
	}
	operations := decode[[]fault.Operation](c, "fault", "operations", "accelerator.mdev")
	if len(operations) != 2 || !strings.Contains(c.do("fault", "operations", "accelerator.mdev.create"), "actions: status, drop, delay\n") {
		t.Errorf("operations: %v", operations)
	}
}

func TestARQAndGuestCommands(t *testing.T) {
	t.Parallel()
	c := openShell(t, "serve")
	arqs := decode[[]cyborgclient.ARQ](c, "arq", "create", "gpu")
	explained := decode[struct {
		Hosts []struct {
			Groups []struct {
				Providers []struct{ UUID string }
			}
		}
	}](c, "explain", "resources=PGPU:9")
	provider := explained.Hosts[0].Groups[0].Providers[0].UUID
	bound := decode[[]cyborgclient.ARQ](c, "arq", "bind", arqs[0].UUID, "--host", "cn0", "--provider", provider, "--instance", someInstance)
	if len(bound) != 1 || bound[0].State != cyborgclient.StateBound {
		t.Fatalf("bound: %v", bound)
	}
	if diff := cmp.Diff(bound, decode[[]cyborgclient.ARQ](c, "arq", "list", "--instance", someInstance)); diff != "" {
		t.Errorf("list (-bound +listed):\n%s", diff)
	}
	if table := c.do("arq", "show", arqs[0].UUID); !strings.Contains(table, "PCI 0000:3b:00.0") {
		t.Errorf("show: %s", table)
	}
	domain := writeFile(t, "domain.xml", `<domain><devices><hostdev mode="subsystem" type="pci"><source><address domain="0x0000" bus="0x3b" slot="0x00" function="0x0"/></source></hostdev></devices></domain>`)
	c.do("guest", "add", someInstance, "--host", "cn0", "--domain", domain)
	if got := decode[[]sim.Guest](c, "guest", "list"); len(got) != 1 || got[0].Host != "cn0" {
		t.Errorf("guests: %v", got)
	}
	if got := c.do("guest", "show", someInstance); !strings.HasPrefix(got, "<domain>") {
		t.Errorf("guest show: %s", got)
	}
	c.do("guest", "remove", someInstance)
	if got := c.do("guest"); got != "no guests\n" {
		t.Errorf("after remove: %s", got)
	}
	if got := c.do("arq", "unbind", arqs[0].UUID); !strings.Contains(got, "Unbound") {
		t.Errorf("unbind: %s", got)
	}
	c.do("arq", "delete", arqs[0].UUID)
	if got := c.do("arq"); got != "no accelerator requests\n" {
		t.Errorf("after delete: %s", got)
	}
	if status, stdout, stderr := cysim(t, "leaks", c.url); status != 0 || stdout != "nothing leaked\n" {
		t.Errorf("leaks: %d %s%s", status, stdout, stderr)
	}
}

func TestRequestsClockAndStateCommands(t *testing.T) {
	t.Parallel()
	c := openShell(t, "serve", "--manual-clock", "--clock-start", "2026-01-01T00:00:00Z")
	if got := c.do("clock", "advance", "90s"); got != "2026-01-01T00:01:30Z\n" {
		t.Errorf("advance: %s", got)
	}
	if got := c.do("clock", "set", "2025-01-01T00:00:00Z"); got != "2025-01-01T00:00:00Z\n" || c.do("clock") != got {
		t.Errorf("set: %s", got)
	}
	saved := filepath.Join(t.TempDir(), "saved.json")
	c.do("state", "save", saved)
	c.do("fault", "add", "placement.root.get", "drop")
	if c.do("state", "load", saved); c.do("fault") != "no fault rules\n" {
		t.Error("the loaded state kept a rule")
	}
	if status, _, stderr := cysim(t, "state", "diff", saved, saved); status != 0 {
		t.Errorf("state diff: %d %s", status, stderr)
	}
	c.do("arq", "create", "gpu")
	requests := decode[[]sim.Exchange](c, "requests", "--limit", "2")
	if len(requests) != 2 || requests[1].Operation != fault.ARQCreate || len(requests[1].Changes) != 1 {
		t.Errorf("requests: %+v", requests)
	}
	lines := strings.Split(c.do("requests", "--limit", "1", "--changes"), "\n")
	if !strings.HasPrefix(lines[0], "00:00:00  201  POST /accelerator/v2/accelerator_requests; created accelerator_request ") {
		t.Errorf("requests: %q", lines)
	}
	if got := c.do("requests", "diagram"); !strings.HasPrefix(got, "sequenceDiagram") {
		t.Errorf("diagram: %s", got)
	}
	c.do("requests", "clear")
	if got := decode[[]sim.Exchange](c, "requests"); len(got) != 0 {
		t.Errorf("after clear: %v", got)
	}
}

func TestExplainOfAFlavor(t *testing.T) {
	t.Parallel()
	c := openShell(t, "serve", "--hosts", "3", "--gpus", "1", "--vgpus", "0")
	want := "query: limit=1000&resources=DISK_GB:20,MEMORY_MB:8192,VCPU:4&resourcesdevice_profile_0=PGPU:1&root_required=COMPUTE_ACCELERATORS,!COMPUTE_STATUS_DISABLED\n" +
		"host cn0: candidate\nhost cn1: candidate\nhost cn2: candidate\n"
	if got := c.do("explain", "--flavor", "accel.gpu"); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	flavor := writeFile(t, "flavor.json", `{"name": "accel.two", "vcpus": 4, "ram": 8192, "disk": 20, "extra_specs": {"accel:device_profile": "two"}}`)
	profile := writeFile(t, "profile.json", `{"name": "two", "groups": [{"resources:PGPU": "2"}]}`)
	if got := c.do("explain", "--flavor", flavor, "--profile", profile); strings.Count(got, "max_unit of PGPU") != 3 {
		t.Errorf("files: %s", got)
	}
	if status, _, stderr := c.run("explain", "--flavor", flavor); status != 1 || !strings.Contains(stderr, "two") {
		t.Errorf("a file with a profile that the cloud does not have: %d %s", status, stderr)
	}
	if got := c.do("explain", "--flavor", "accel.vgpu"); strings.Count(got, "\n") != 4 || strings.Contains(got, "candidate\n") {
		t.Errorf("without vGPUs: %s", got)
	}
}

func TestWhatControlCommandsRefuse(t *testing.T) {
	t.Parallel()
	c := openShell(t, "serve")
	for _, tt := range []struct {
		args   string
		status int
		want   string
	}{
		{"fault add accelerator.arq.bnd drop", 2, `unknown operation "accelerator.arq.bnd", did you mean accelerator.arq.bind?`},
		{"fault add accelerator.arq.bind explode", 2, `fault add: accelerator.arq.bind: unknown action "explode" (known: status, drop, `},
		{"fault add accelerator.arq.bind drop --times many", 2, "want a number, or all"},
		{"fault add cyborg.* drop", 2, `unknown operation "cyborg.*", did you mean accelerator.*?`},
		{"fault add arq.create drop", 2, `fault add: unknown operation "arq.create", did you mean accelerator.arq.create?`},
		{"fault ad", 2, "cysim fault has no command ad, did you mean add?"},
		{"guest define", 2, "cysim guest has no command define; it has list, show, add, remove"},
		{"guest remove " + someInstance, 1, "guest remove " + someInstance + ": no such guest"},
		{"guest add me --host cn0", 2, "me"},
		{"guest add " + someInstance + " --host cn0 --domain /none", 2, "--domain: open /none"},
		{"arq create gp", 1, "Device Profile not found with name=gp"},
		{"arq show x", 2, "x"},
		{"arq bind " + someInstance, 2, "missing flags: --host=NAME, --instance=UUID, --provider=UUID"},
		{"requests --limit 0", 2, "--limit 0: want at least 1"},
		{"explain", 2, "give a query or --flavor"},
		{"explain --profile /none resources=PGPU:1", 2, "--profile needs --flavor"},
		{"explain resources=PGPU:x", 2, "PGPU"},
		{"explain --flavor accel.gp", 2, `the model of the cloud has no flavor "accel.gp", did you mean accel.gpu?`},
		{"explain --flavor moon", 2, `the model of the cloud has no flavor "moon"; it has accel.gpu, `},
		{"clock advance 1s", 1, "only a manual clock can be changed"},
		{"state load /none", 2, "state load: open /none"},
		{"state load " + os.Args[0], 2, "state load: "},
	} {
		status, stdout, stderr := c.run(strings.Fields(tt.args)...)
		if status != tt.status || !strings.Contains(stderr, tt.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("cysim %s: %d %s%s, want %d with %s", tt.args, status, stdout, stderr, tt.status, tt.want)
		}
	}
}

// A server without a route, and one that is not there.
func TestControlCommandsNameTheServer(t *testing.T) {
	t.Parallel()
	placement := start(t, "placement", "--control-token", "secret").env["CYSIM_PLACEMENT_URL"]
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"guest", "list", "--url", placement, "--control-token", "secret"}, "GET " + placement + "/_sim/guests: 404 Not Found: not a server of cysim with that route"},
		{[]string{"fault", "list", "--url", placement}, "the server requires its --control-token"},
		{[]string{"fault", "list", "--url", "http://127.0.0.1:1"}, "is cysim serve running there?"},
		{[]string{"fault", "list"}, "no address of a server: CYSIM_URL is not set; cysim list shows the running servers"},
		{[]string{"fault", "list", "--url", "nowhere"}, `"nowhere" is not an absolute http`},
	} {
		if status, _, stderr := cysim(t, tt.args...); status == 0 || !strings.Contains(stderr, tt.want) {
			t.Errorf("cysim %s: %d %s, want %s", tt.args, status, stderr, tt.want)
		}
	}
}

func TestServeRefusesTheSizeOfACloud(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--port 80":                  "--port: cysim has --listen 127.0.0.1:80 instead",
		"--host 0.0.0.0":             "--listen selects the address",
		"--hosts 0":                  "--hosts 0: want 1 to 100000",
		"--vgpus=-1":                 "--gpus 2 --vgpus -1: want at most 240 cards",
		"--gpus 240 --vgpus 1":       "want at most 240 cards",
		"--hosts 2 --sysfs /none":    "cannot be combined",
		"--gpus 9223372036854775807": "want at most 240 cards",
	} {
		if status, _, stderr := cysim(t, strings.Fields("serve "+args)...); status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("serve %s: %d %s, want %s", args, status, stderr, want)
		}
	}
}

func TestCysimAlonePrintsItsHelp(t *testing.T) {
	t.Parallel()
	status, alone, stderr := cysim(t)
	if status != 0 || stderr != "" {
		t.Errorf("%d %s", status, stderr)
	}
	_, asked, _ := cysim(t, "--help")
	if diff := cmp.Diff(asked, alone); diff != "" {
		t.Errorf("(-help +alone):\n%s", diff)
	}
}

// Each command is a process of its own, with a home of its own.
func TestListAndStop(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cysim := func(args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), os.Args[0], args...)
		command.Env = append(os.Environ(), asCommand+"=1", "HOME="+home, "XDG_CACHE_HOME="+home, "CYSIM_PID=")
		out, err := command.CombinedOutput()
		return string(out), err
	}
	do := func(args ...string) string {
		t.Helper()
		out, err := cysim(args...)
		if err != nil {
			t.Fatalf("cysim %s: %v %s", strings.Join(args, " "), err, out)
		}
		return out
	}
	list := func() (urls []string) {
		t.Helper()
		var running []struct {
			URL     string
			Command string
			PID     int
		}
		must(t, json.Unmarshal([]byte(do("list", "-o", "json")), &running))
		for _, s := range running {
			urls = append(urls, s.Command+" "+s.URL)
		}
		return urls
	}
	serve := func(name, log string) (url, pid string) {
		t.Helper()
		out := do(name, "--daemon", "--log", filepath.Join(home, log))
		fields := regexp.MustCompile(`CYSIM_(?:PLACEMENT_)?URL='?([^'\s]+)'?\n(?s:.*)CYSIM_PID='?(\d+)`).FindStringSubmatch(out)
		if fields == nil {
			t.Fatalf("%s printed %s", name, out)
		}
		return fields[1], fields[2]
	}
	if got := do("list") + do("stop", "--all"); got != "no servers\n" {
		t.Errorf("at first: %q", got)
	}
	if out, err := cysim("stop"); err == nil || !strings.Contains(out, "no server of this user runs") {
		t.Errorf("stop without a server: %v %s", err, out)
	}
	cloud, pid := serve("serve", "a")
	placement, _ := serve("placement", "b")
	third, killed := serve("serve", "c")
	if diff := cmp.Diff([]string{"serve " + cloud, "placement " + placement, "serve " + third}, list()); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if out, err := cysim("stop"); err == nil || !strings.Contains(out, "3 servers run; name one by its process ID or URL, or give --all") {
		t.Errorf("stop without a name: %v %s", err, out)
	}
	if out, err := cysim("stop", "http://127.0.0.1:1"); err == nil || !strings.Contains(out, "no server http://127.0.0.1:1 of this user runs") {
		t.Errorf("stop of another server: %v %s", err, out)
	}
	number, err := strconv.Atoi(killed)
	must(t, err)
	if process, err := os.FindProcess(number); err != nil || process.Kill() != nil {
		t.Fatal(err)
	}
	if got := do("stop", placement+"/"); got == "" || !strings.Contains(got, placement) {
		t.Errorf("stop by URL: %s", got)
	}
	for len(list()) > 1 { // the killed process may still be ending
		runtime.Gosched()
	}
	if got := do("stop"); got != fmt.Sprintf("stopped process %s (%s)\n", pid, cloud) {
		t.Errorf("stop of the only server: %s", got)
	}
	if got := list(); got != nil {
		t.Errorf("at the end: %v", got)
	}
}

// Instances that a load keeps are guests of a cloud of cysim serve, so that they are no leaks, if the cloud is that of CYSIM_URL.
func TestKeptInstancesAreGuests(t *testing.T) {
	for _, want := range []int{0, 9} {
		clouds := filepath.Join(t.TempDir(), "clouds.yaml")
		c := openShell(t, "serve", "--clouds-yaml", clouds)
		t.Setenv("OS_CLIENT_CONFIG_FILE", clouds)
		t.Setenv("CYSIM_URL", map[int]string{0: c.url, 9: "http://127.0.0.1:1"}[want])
		if status, stdout, stderr := cysim(t, strings.Fields("load --cloud sim --service-cloud sim-svc --spawns 2 --warmup 0 --keep")...); status != 0 {
			t.Fatalf("load: %d %s%s", status, stdout, stderr)
		}
		if status, stdout, stderr := cysim(t, "check", c.url); status != want {
			t.Errorf("check: %d %s%s, want %d", status, stdout, stderr, want)
		}
	}
}
