//go:build nova

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/simcloud"
)

// These tests drive Debian's Nova (python3-nova, unmodified), which docs/nova/serve.py starts with a cloud:
// in one process, and with a process for each service and a RabbitMQ between them. After each step the cloud
// is checked for leaks, with Nova's servers as its guests.

// realNova is a cloud and its Nova.
type realNova struct {
	cloud    *running
	compute  string // URL
	admin    string // tokens
	member   string
	image    string
	flavors  int
	commands io.Writer
	answers  *bufio.Scanner
}

// onEachBus tests a Nova in one process and one of several.
func onEachBus(t *testing.T, test func(*testing.T, messageBus)) {
	t.Parallel()
	for _, bus := range []messageBus{inProcess, rabbitMQ} {
		t.Run(string(bus), func(t *testing.T) {
			t.Parallel()
			test(t, bus)
		})
	}
}

// messageBus is what connects the services of a Nova.
type messageBus string

const (
	inProcess messageBus = "in one process"
	rabbitMQ  messageBus = "with RabbitMQ"
)

// startRabbitMQ returns the URL of a RabbitMQ of its own.
func startRabbitMQ(t *testing.T) string {
	t.Helper()
	port := freePorts(t, 2)
	command := exec.Command("../../docs/nova/rabbitmq", t.TempDir(), port)
	var out lockedBuffer
	command.Stdout, command.Stderr = &out, &out
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
	})
	ctx, cancel := context.WithTimeout(t.Context(), limitOfWait)
	defer cancel()
	for !strings.Contains(out.String(), "completed with") {
		if !pause(ctx) {
			t.Fatalf("RabbitMQ does not start: %s", &out)
		}
	}
	return "rabbit://guest:guest@127.0.0.1:" + port + "/"
}

// startRealNova starts a cloud with further flags, and a Nova with the hosts cn0 and cn1.
func startRealNova(t *testing.T, bus messageBus, flags ...string) *realNova {
	t.Helper()
	dir := t.TempDir()
	api, neutron := freePorts(t, 1), freePorts(t, 1)
	n := &realNova{compute: "http://127.0.0.1:" + api + "/v2.1"}
	file := filepath.Join(dir, "clouds.yaml")
	n.cloud = start(t, append([]string{
		"serve", "--clouds-yaml", file, "--nova-makes-hosts", "--guests-from", "nova",
		"--catalog", "compute=" + n.compute, "--catalog", "network=http://127.0.0.1:" + neutron,
	}, flags...)...)
	args := []string{"--port", api, "--neutron-port", neutron}
	if bus == rabbitMQ {
		args = append(args, "--transport-url", startRabbitMQ(t))
	}
	command := novaCommand(t, dir, args...)
	for name, value := range n.cloud.env {
		command.Env = append(command.Env, name+"="+value)
	}
	for _, v := range openStackVariables(n.cloud.env["CYSIM_URL"], "RegionOne", admin(), simcloud.Password) {
		command.Env = append(command.Env, v.name+"="+v.value)
	}
	var stderr lockedBuffer
	command.Stderr = &stderr
	in, err := command.StdinPipe()
	must(t, err)
	out, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() {
		_ = in.Close() // ends it
		if err := command.Wait(); err != nil || t.Failed() {
			t.Logf("Nova ended with %v\n%s\n%s", err, &stderr, problems(command))
		}
	})
	n.commands, n.answers = in, bufio.NewScanner(out)
	if !n.await("ready") {
		t.Fatalf("Nova does not start: %s", &stderr)
	}
	n.admin, n.member = login(t, file, "sim").Token(), login(t, file, "sim-demo").Token()
	put(t, "POST", n.cloud.env["CYSIM_URL"]+"/_sim/report", "")
	n.makeImage(t)
	n.do(t, "POST", n.cloud.env["CYSIM_URL"]+"/accelerator/v2/device_profiles", `[{"name": "pair", "groups": [{"resources:PGPU": "1"}, {"resources:PGPU": "1"}]}]`, nil)
	return n
}

// novaRoot runs another Nova than the machine's.
var novaRoot = flag.String("nova.root", "", "run the Nova of this chroot, such as one that docs/nova/run --suite has made")

// novaCommand is serve.py with a directory, on the machine or in a chroot.
func novaCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	const scripts = "../../docs/nova"
	if *novaRoot == "" {
		return exec.Command("/usr/bin/python3", append([]string{scripts + "/serve.py", "--dir", dir}, args...)...)
	}
	inside, err := os.MkdirTemp(filepath.Join(*novaRoot, "tmp"), "nova")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(inside) })
	must(t, os.CopyFS(inside, os.DirFS(scripts)))
	inside = "/tmp/" + filepath.Base(inside)
	return exec.Command("chroot", append([]string{*novaRoot, "/usr/bin/python3", inside + "/serve.py", "--dir", inside}, args...)...)
}

// await reads what the process says.
func (n *realNova) await(word string) bool {
	for n.answers.Scan() {
		if n.answers.Text() == word {
			return true
		}
	}
	return false
}

// tell stops or starts a nova-compute.
func (n *realNova) tell(t *testing.T, command string) {
	t.Helper()
	if _, err := fmt.Fprintln(n.commands, command); err != nil || !n.await("done") {
		t.Fatalf("%s: %v", command, err)
	}
}

// problems are the errors in the logs of a Nova.
func problems(command *exec.Cmd) (text string) {
	dir := filepath.Join(*novaRoot, command.Args[slices.Index(command.Args, "--dir")+1])
	_ = filepath.WalkDir(dir, func(file string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".log" {
			return err
		}
		data, err := os.ReadFile(file)
		var lines []string
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, " ERROR ") || strings.Contains(line, " CRITICAL ") {
				lines = append(lines, line)
			}
		}
		text += file + ":\n" + strings.Join(lines[max(0, len(lines)-60):], "")
		return err
	})
	return text
}

// send asks a service with a token.
func send(t *testing.T, token, method, url, body string) (int, string) {
	t.Helper()
	content := "application/json"
	if strings.HasSuffix(url, "/file") {
		content = "application/octet-stream"
	}
	return reply(t, method, url, body, "X-Auth-Token: "+token, "Content-Type: "+content,
		"X-OpenStack-Nova-API-Version: 2.90", "OpenStack-API-Version: placement 1.14, accelerator 2.0")
}

// do asks a service as the administrator; the service has to agree.
func (n *realNova) do(t *testing.T, method, url, body string, into any) {
	t.Helper()
	sendOK(t, n.admin, method, url, body, into)
}

// sendOK asks a service, which has to agree.
func sendOK(t *testing.T, token, method, url, body string, into any) {
	t.Helper()
	status, text := send(t, token, method, url, body)
	if status >= 300 {
		t.Fatalf("%s %s %s: %d %s", method, url, body, status, text)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s %s: %v: %s", method, url, err, text)
		}
	}
}

func (n *realNova) makeImage(t *testing.T) {
	t.Helper()
	images := n.cloud.env["CYSIM_URL"] + "/image/v2/images"
	var made struct{ ID string }
	n.do(t, "POST", images, `{"name": "disk", "visibility": "public", "disk_format": "raw", "container_format": "bare"}`, &made)
	n.do(t, "PUT", images+"/"+made.ID+"/file", "disk", nil)
	n.image = made.ID
}

// boot creates a server of a member with a flavor that asks for a device profile, and waits until it runs.
func (n *realNova) boot(t *testing.T, profile string) *realServer {
	t.Helper()
	var flavor struct{ Flavor struct{ ID string } }
	n.flavors++
	n.do(t, "POST", n.compute+"/flavors", fmt.Sprintf(`{"flavor": {"name": "flavor%d", "vcpus": 1, "ram": 64, "disk": 1}}`, n.flavors), &flavor)
	n.do(t, "POST", n.compute+"/flavors/"+flavor.Flavor.ID+"/os-extra_specs", fmt.Sprintf(`{"extra_specs": {"accel:device_profile": %q}}`, profile), nil)
	var made struct{ Server struct{ ID string } }
	sendOK(t, n.member, "POST", n.compute+"/servers", fmt.Sprintf(`{"server": {"name": %q, "imageRef": %q, "flavorRef": %q, "networks": "auto"}}`, t.Name(), n.image, flavor.Flavor.ID), &made)
	s := &realServer{n: n, id: made.Server.ID}
	s.await(t, "ACTIVE")
	return s
}

// realServer is a server of a real Nova. Its owner, who is not an administrator, operates and deletes it.
type realServer struct {
	n  *realNova
	id string
}

// serverState is Nova's answer about a server.
type serverState struct {
	Status string
	Host   string `json:"OS-EXT-SRV-ATTR:host"`
	Task   string `json:"OS-EXT-STS:task_state"`
	Fault  any
}

func (s *realServer) state(t *testing.T) serverState {
	t.Helper()
	var body struct{ Server serverState }
	s.n.do(t, "GET", s.n.compute+"/servers/"+s.id, "", &body)
	return body.Server
}

// limitOfWait is far above what any step takes.
const limitOfWait = 2 * time.Minute

// await waits until the server has a status and nothing is going on.
func (s *realServer) await(t *testing.T, status string) serverState {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limitOfWait)
	defer cancel()
	for {
		now := s.state(t)
		if now.Task == "" && now.Status == status {
			return now
		}
		if now.Status == "ERROR" || !pause(ctx) {
			t.Fatalf("server %s is %+v, want %s", s.id, now, status)
		}
	}
}

// pause waits a little, and reports whether there is time left.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(200 * time.Millisecond):
		return true
	}
}

// action is an action of the server, after which it has a status.
func (s *realServer) action(t *testing.T, body, status string) {
	t.Helper()
	sendOK(t, s.n.member, "POST", s.n.compute+"/servers/"+s.id+"/action", body, nil)
	s.await(t, status)
}

// arq is an accelerator request as Cyborg shows it.
type arq struct {
	State  string
	Host   string `json:"hostname"`
	Device string `json:"device_rp_uuid"`
	Handle string `json:"attach_handle_uuid"`
}

func (s *realServer) arqs(t *testing.T) []arq {
	t.Helper()
	var body struct{ ARQs []arq }
	s.n.do(t, "GET", s.n.cloud.env["CYSIM_URL"]+"/accelerator/v2/accelerator_requests?instance="+s.id, "", &body)
	return body.ARQs
}

// holds checks that the server has a number of bound accelerators on its host, and that nothing leaked.
func (s *realServer) holds(t *testing.T, want int) {
	t.Helper()
	host := s.state(t).Host
	arqs := s.arqs(t)
	bound := slices.IndexFunc(arqs, func(a arq) bool { return a.State != "Bound" || a.Host != host || a.Handle == "" }) < 0
	if len(arqs) != want || !bound {
		t.Errorf("server %s on %s has %+v, want %d bound requests", s.id, host, arqs, want)
	}
	s.n.check(t)
}

// check is cysim check.
func (n *realNova) check(t *testing.T) {
	t.Helper()
	if status, stdout, stderr := cysim(t, "check", n.cloud.env["CYSIM_URL"]); status != 0 {
		t.Errorf("cysim check: %d %s%s", status, stdout, stderr)
	}
}

// remove deletes the server and waits until it no longer exists, and neither do its resources.
func (s *realServer) remove(t *testing.T) {
	t.Helper()
	sendOK(t, s.n.member, "DELETE", s.n.compute+"/servers/"+s.id, "", nil)
	ctx, cancel := context.WithTimeout(t.Context(), limitOfWait)
	defer cancel()
	for status := 0; status != http.StatusNotFound; status, _ = send(t, s.n.admin, "GET", s.n.compute+"/servers/"+s.id, "") {
		if !pause(ctx) {
			t.Fatalf("server %s is not deleted: %+v", s.id, s.state(t))
		}
	}
	if left := s.arqs(t); len(left) > 0 {
		t.Errorf("the deleted server %s still has %+v", s.id, left)
	}
	s.n.check(t)
}

// devices are how many accelerators the profiles ask for that these tests use: two of the default model and one with two GPUs.
var devices = map[string]int{"gpu": 1, "pair": 2, "mixed": 4}

func TestRealNovaBootsAndDeletes(t *testing.T) {
	onEachBus(t, func(t *testing.T, bus messageBus) {
		atOnceAndLate(t, bus, func(t *testing.T, n *realNova, _ bool) {
			for profile, want := range devices {
				s := n.boot(t, profile)
				s.holds(t, want)
				s.remove(t)
			}
		})
	})
}

// atOnceAndLate tests a Nova whose devices are bound at once, and one whose devices are bound after six seconds.
func atOnceAndLate(t *testing.T, bus messageBus, test func(t *testing.T, n *realNova, late bool)) {
	t.Run("bound at once", func(t *testing.T) {
		t.Parallel()
		test(t, startRealNova(t, bus), false)
	})
	t.Run("bound after six seconds", func(t *testing.T) {
		t.Parallel()
		test(t, startRealNova(t, bus, "--async-bind", "--bind-delay", "6s"), true)
	})
}

// TestRealNovaOperates: what Nova does with a server that has accelerators.
func TestRealNovaOperates(t *testing.T) {
	onEachBus(t, func(t *testing.T, bus messageBus) { atOnceAndLate(t, bus, testRealNovaOperates) })
}

func testRealNovaOperates(t *testing.T, n *realNova, late bool) {
	t.Helper()
	for profile, want := range devices {
		s := n.boot(t, profile)
		first := s.arqs(t)
		for _, step := range []struct{ action, status string }{
			{`{"os-stop": null}`, "SHUTOFF"}, {`{"os-start": null}`, "ACTIVE"}, {`{"reboot": {"type": "HARD"}}`, "ACTIVE"}, {`{"reboot": {"type": "SOFT"}}`, "ACTIVE"},
			{`{"pause": null}`, "PAUSED"}, {`{"unpause": null}`, "ACTIVE"}, {`{"rebuild": {"imageRef": "` + n.image + `"}}`, "ACTIVE"},
		} {
			s.action(t, step.action, step.status)
			s.holds(t, want)
			if now := s.arqs(t); !slices.Equal(first, now) {
				t.Errorf("after %s: requests %+v became %+v", step.action, first, now)
			}
		}
		s.action(t, `{"shelve": null}`, "SHELVED_OFFLOADED")
		if left := s.arqs(t); len(left) > 0 {
			t.Errorf("a server that is shelved has %+v", left)
		}
		n.check(t)
		if !late { // Nova waits for an event that it refuses, because the server has no host yet
			s.action(t, `{"unshelve": null}`, "ACTIVE")
			s.holds(t, want)
		}
		s.remove(t)
	}
}

// TestRealNovaEvacuates: an administrator evacuates the server, which gets accelerators of the other host, and its owner goes on with it,
// before the first host is back and afterwards.
func TestRealNovaEvacuates(t *testing.T) {
	onEachBus(t, func(t *testing.T, bus messageBus) { atOnceAndLate(t, bus, testRealNovaEvacuates) })
}

func testRealNovaEvacuates(t *testing.T, n *realNova, _ bool) {
	t.Helper()
	for profile, want := range devices {
		s := n.boot(t, profile)
		from := s.state(t).Host
		n.tell(t, "stop "+from)
		n.do(t, "PUT", n.compute+"/os-services/"+n.service(t, from), `{"forced_down": true}`, nil)
		n.do(t, "POST", n.compute+"/servers/"+s.id+"/action", `{"evacuate": {}}`, nil)
		ctx, cancel := context.WithTimeout(t.Context(), limitOfWait)
		for now := s.state(t); now.Host == from || now.Task != ""; now = s.state(t) {
			if now.Status == "ERROR" || !pause(ctx) {
				t.Fatalf("server %s is %+v, want it on another host than %s", s.id, now, from)
			}
		}
		cancel()
		s.holds(t, want)
		s.action(t, `{"reboot": {"type": "HARD"}}`, "ACTIVE")
		s.holds(t, want)
		n.tell(t, "start "+from)
		n.do(t, "PUT", n.compute+"/os-services/"+n.service(t, from), `{"forced_down": false}`, nil)
		s.holds(t, want)
		s.action(t, `{"reboot": {"type": "HARD"}}`, "ACTIVE")
		s.holds(t, want)
		s.remove(t)
	}
}

// service is the id of the nova-compute of a host.
func (n *realNova) service(t *testing.T, host string) string {
	t.Helper()
	var body struct{ Services []struct{ ID string } }
	n.do(t, "GET", n.compute+"/os-services?binary=nova-compute&host="+host, "", &body)
	if len(body.Services) != 1 {
		t.Fatalf("nova-compute services of %s: %+v", host, body.Services)
	}
	return body.Services[0].ID
}

// TestRealNovaDeletesAHost: the deletion of a compute service takes the devices of its host from Placement, and they
// return when it starts again.
func TestRealNovaDeletesAHost(t *testing.T) {
	onEachBus(t, func(t *testing.T, bus messageBus) { testRealNovaDeletesAHost(t, startRealNova(t, bus)) })
}

func testRealNovaDeletesAHost(t *testing.T, n *realNova) {
	t.Helper()
	before := n.below(t, "cn1")
	n.tell(t, "stop cn1")
	n.do(t, "DELETE", n.compute+"/os-services/"+n.service(t, "cn1"), "", nil)
	if left := n.below(t, "cn1"); len(left) > 0 {
		t.Errorf("providers of the deleted host: %v", left)
	}
	n.tell(t, "start cn1")
	put(t, "POST", n.cloud.env["CYSIM_URL"]+"/_sim/report", "")
	if after := n.below(t, "cn1"); len(before) < 2 || !slices.Equal(before, after) {
		t.Errorf("providers of cn1 were %v, and are %v", before, after)
	}
	n.do(t, "PUT", n.compute+"/os-services/"+n.service(t, "cn0"), `{"status": "disabled"}`, nil)
	s := n.boot(t, "gpu")
	if host := s.state(t).Host; host != "cn1" {
		t.Errorf("the server is on %s", host)
	}
	s.holds(t, 1)
	s.remove(t)
}

// below are the names of the providers of a host.
func (n *realNova) below(t *testing.T, host string) (names []string) {
	t.Helper()
	var body struct {
		Providers []struct {
			UUID string
			Name string
			Root string `json:"root_provider_uuid"`
		} `json:"resource_providers"`
	}
	n.do(t, "GET", n.cloud.env["CYSIM_URL"]+"/placement/resource_providers", "", &body)
	root := ""
	for _, p := range body.Providers {
		if p.Name == host {
			root = p.UUID
		}
	}
	for _, p := range body.Providers {
		if root != "" && p.Root == root {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestRealNovaByTheCommandsThatRunPrints types what docs/nova/run prints, in an empty home.
func TestRealNovaByTheCommandsThatRunPrints(t *testing.T) {
	t.Parallel()
	if *novaRoot != "" {
		t.Skip("docs/nova/run starts the Nova of this machine")
	}
	run := exec.Command("../../docs/nova/run", "--dir", t.TempDir(), "--port", freePorts(t, 3))
	var stderr lockedBuffer
	run.Stderr = &stderr
	out, err := run.StdoutPipe()
	must(t, err)
	must(t, run.Start())
	t.Cleanup(func() {
		_ = run.Process.Signal(syscall.SIGTERM)
		_ = run.Wait()
	})
	var commands []string
	for answers := bufio.NewScanner(out); !slices.Contains(commands, "cysim check"); {
		if !answers.Scan() {
			t.Fatalf("docs/nova/run has ended: %s", &stderr)
		}
		if command, ok := strings.CutPrefix(answers.Text(), "  "); ok {
			commands = append(commands, command)
		}
	}
	typed := exec.Command("bash", "-e", "-c", strings.Join(commands, "\n"))
	typed.Env = []string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}
	printed, err := typed.CombinedOutput()
	lines := len(commands) + strings.Count(string(printed), "\n")
	if err != nil || len(commands) > 12 || lines > 60 || !strings.Contains(string(printed), "Bound") || !strings.HasSuffix(string(printed), "nothing leaked\n") {
		t.Errorf("%d commands with %d lines: %v\n%s\n%s", len(commands), lines, err, strings.Join(commands, "\n"), printed)
	}
}
