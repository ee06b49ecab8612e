//go:build differential

package differential_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
)

// The world of the comparison of speed. GOCYBORG_BESIDE_HOSTS sets another number of hosts.
const (
	besideHosts   = 1000
	besideDevices = 8
)

// measured is a service in a process of its own.
type measured struct {
	*side
	pid     int
	repeats int // of each request
}

// TestBesideTheRealServices writes the table of docs/dev/performance.md: candidates, claims and cycles of ARQs, of the real
// services and of cysim, with the same requests in the same world.
func TestBesideTheRealServices(t *testing.T) {
	hosts := besideHosts
	if text := os.Getenv("GOCYBORG_BESIDE_HOSTS"); text != "" {
		var err error
		if hosts, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	cysim := filepath.Join(t.TempDir(), "cysim")
	if out, err := exec.Command("go", "build", "-o", cysim, "../../cmd/cysim").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	fmt.Println("| what | service | length of the answer | p50 | processor time |\n|---|---|---|---|---|")
	_, there := stateDirectory(t)
	url, pid := startRealProcess(t, "../../placementsim/testdata/oracle/serve.py", there)
	ours, oursPID := startCysim(t, cysim, "placement", "--auth", "none")
	services := []measured{
		{newSide("Placement 16", url, realTransport()), pid, 10},
		{newSide("`cysim`", ours, realTransport()), oursPID, 300},
	}
	for _, s := range services {
		s.build(t, hosts)
	}
	one, two := "resources_device_profile_0=PGPU:1", "resources_device_profile_0=PGPU:1&resources_device_profile_1=PGPU:1&group_policy=isolate"
	for _, query := range []struct{ name, groups string }{{"one device", one}, {"two devices", two}} {
		for _, limit := range []int{10, 1000} {
			target := fmt.Sprintf("/allocation_candidates?resources=VCPU:2,MEMORY_MB:4096&%s&limit=%d", query.groups, limit)
			for _, s := range services {
				s.measure(t, fmt.Sprintf("candidates with %s, `limit=%d`", query.name, limit), s.repeats, func(int) int {
					return len(s.mustSend(t, http.StatusOK, placementRequest("GET", target, nil)).body)
				})
			}
		}
	}
	for _, s := range services {
		s.measure(t, "claim and release", 10*s.repeats, func(i int) int { return s.claim(t, i%hosts, i) })
	}
	measureCycles(t, cysim)
}

func placementRequest(method, target string, body any) request {
	req := request{method: method, target: target, header: [][2]string{{"X-Auth-Token", "admin"}, {"OpenStack-API-Version", "placement 1.39"}}}
	if body != nil {
		req.body = asJSON(body)
		req.set("Content-Type", "application/json")
	}
	return req
}

func hostUUID(host int) string { return fmt.Sprintf("%08d-0000-4000-8000-000000000000", host) }
func deviceUUID(host, device int) string {
	return fmt.Sprintf("%08d-0000-4000-8000-%012d", host, device+1)
}

// build makes hosts with devices.
func (s measured) build(t *testing.T, hosts int) {
	t.Helper()
	provide := func(uuid, parent string, inventories map[string]any) {
		fields := map[string]any{"uuid": uuid, "name": uuid}
		if parent != "" {
			fields["parent_provider_uuid"] = parent
		}
		s.mustSend(t, http.StatusOK, placementRequest("POST", "/resource_providers", fields))
		s.mustSend(t, http.StatusOK, placementRequest("PUT", "/resource_providers/"+uuid+"/inventories",
			map[string]any{"resource_provider_generation": 0, "inventories": inventories}))
	}
	s.measure(t, fmt.Sprintf("build of %d hosts with %d devices", hosts, besideDevices), 1, func(int) int {
		for host := range hosts {
			provide(hostUUID(host), "", map[string]any{"VCPU": map[string]any{"total": 64}, "MEMORY_MB": map[string]any{"total": 262144}, "DISK_GB": map[string]any{"total": 4000}})
			for device := range besideDevices {
				provide(deviceUUID(host, device), hostUUID(host), map[string]any{"PGPU": map[string]any{"total": 1}})
			}
		}
		return 0
	})
}

// claim claims a device and releases it.
func (s measured) claim(t *testing.T, host, n int) int {
	t.Helper()
	path := fmt.Sprintf("/allocations/cccccccc-0000-4000-8000-%012d", n)
	s.mustSend(t, http.StatusNoContent, placementRequest("PUT", path, map[string]any{
		"allocations": map[string]any{
			hostUUID(host):                    map[string]any{"resources": map[string]int{"VCPU": 2, "MEMORY_MB": 4096}},
			deviceUUID(host, n%besideDevices): map[string]any{"resources": map[string]int{"PGPU": 1}},
		},
		"project_id": "p", "user_id": "u", "consumer_generation": nil, "consumer_type": "INSTANCE",
	}))
	s.mustSend(t, http.StatusNoContent, placementRequest("DELETE", path, nil))
	return 0
}

// measureCycles measures the life of an ARQ: create, bind, until Bound, delete.
func measureCycles(t *testing.T, cysim string) {
	t.Helper()
	cyborg, pid := startCyborgProcess(t)
	model := filepath.Join(t.TempDir(), "model.json")
	data, err := json.Marshal(acceleratorModel(fakecyborg.Config{}, true))
	if err == nil {
		err = os.WriteFile(model, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	url, oursPID := startCysim(t, cysim, "serve", "--model", model)
	ours := newSide("`cysim`", url, realTransport())
	login(t, ours, ours)
	learnHardware(t, ours)
	for _, s := range []measured{{cyborg.side, pid, 50}, {ours, oursPID, 1000}} {
		if s.side == cyborg.side {
			s.name = "Cyborg 17"
		}
		s.mustSend(t, http.StatusCreated, cyborgRequest("admin", "POST", "/device_profiles", []any{map[string]any{"name": "beside", "groups": []any{map[string]string{"resources:PGPU": "1"}}}}))
		s.measure(t, "create, bind and delete an ARQ", s.repeats, func(i int) int { return s.cycle(t, i) })
	}
}

func cyborgRequest(user, method, path string, body any) request {
	req := request{method: method, target: cyborgPath + path, header: [][2]string{{"X-Auth-Token", tokenOf(user)}}}
	if user == "nova" {
		req.set("X-Service-Token", tokenOf(user))
	}
	if body != nil {
		req.body = asJSON(body)
		req.set("Content-Type", "application/json")
	}
	return req
}

// cycle is the life of an ARQ. It returns the length of the answer that has the bound one.
func (s measured) cycle(t *testing.T, n int) int {
	t.Helper()
	instance := fmt.Sprintf("99999999-1111-4000-8000-%012d", n)
	var made struct{ ARQs []struct{ UUID string } }
	created := s.mustSend(t, http.StatusCreated, cyborgRequest("nova", "POST", "/accelerator_requests", map[string]string{"device_profile_name": "beside"}))
	if err := json.Unmarshal([]byte(created.body), &made); err != nil || len(made.ARQs) != 1 {
		t.Fatalf("%v: %s", err, created.body)
	}
	var patch []any
	for path, value := range map[string]string{"/hostname": acceleratorHost(0), "/device_rp_uuid": providerLabel(0), "/instance_uuid": instance} {
		patch = append(patch, map[string]string{"op": "add", "path": path, "value": value})
	}
	s.mustSend(t, http.StatusAccepted, cyborgRequest("nova", "PATCH", "/accelerator_requests", map[string]any{made.ARQs[0].UUID: patch}))
	for range 1000 {
		bound := s.mustSend(t, 0, cyborgRequest("nova", "GET", "/accelerator_requests?bind_state=resolved&instance="+instance, nil))
		if bound.status != http.StatusOK {
			continue
		}
		if !strings.Contains(bound.body, `"Bound"`) {
			t.Fatal(bound.body)
		}
		s.mustSend(t, http.StatusNoContent, cyborgRequest("nova", "DELETE", "/accelerator_requests?instance="+instance, nil))
		return len(bound.body)
	}
	t.Fatal("not bound")
	return 0
}

// mustSend sends a request; the status 0 means any.
func (s measured) mustSend(t *testing.T, status int, req request) answer {
	t.Helper()
	got := s.send(t, req)
	if got.status != status && status != 0 {
		t.Fatalf("%s: %s: %d %s", s.name, req, got.status, got.body)
	}
	return got
}

// measure writes a row of the table. Each call returns the length of its answer; the row has the last one.
func (s measured) measure(t *testing.T, what string, repeats int, call func(i int) int) {
	t.Helper()
	if repeats > 1 {
		call(-1 + 1<<30) // what is read once
	}
	var times []time.Duration
	length := 0
	before := processorTime(t, s.pid)
	for i := range repeats {
		begun := time.Now()
		length = call(i)
		times = append(times, time.Since(begun))
	}
	each := (processorTime(t, s.pid) - before) / time.Duration(repeats)
	slices.Sort(times)
	shown := ""
	if length > 0 {
		shown = fmt.Sprintf("%.1f kB", float64(length)/1e3)
	}
	fmt.Printf("| %s | %s | %s | %s | %s |\n", what, s.name, shown, shortly(times[len(times)/2]), shortly(each))
}

// shortly has about three digits of a duration.
func shortly(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
}

// processorTime is the user and system time of a process and its children.
func processorTime(t *testing.T, pid int) (sum time.Duration) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), ") ") // behind the name
	const tick, user, system = 10 * time.Millisecond, 11, 12
	for _, i := range []int{user, system} {
		ticks, err := strconv.Atoi(strings.Fields(rest)[i])
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ticks) * tick
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		children, _ := os.ReadFile(task) // of a thread that may have ended
		for _, child := range strings.Fields(string(children)) {
			number, err := strconv.Atoi(child)
			if err != nil {
				t.Fatal(err)
			}
			sum += processorTime(t, number)
		}
	}
	return sum
}

// startCysim starts a command of cysim and returns its URL and its process.
func startCysim(t *testing.T, binary string, args ...string) (url string, pid int) {
	t.Helper()
	cmd := exec.Command(binary, append(args, "--listen", "127.0.0.1:0")...)
	stdout, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		switch name {
		case "CYSIM_PLACEMENT_URL", "CYSIM_URL":
			url = value
		case "CYSIM_PID":
			return url, cmd.Process.Pid
		}
	}
	t.Fatalf("cysim %s does not start", strings.Join(args, " "))
	return "", 0
}
