package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// After a process was killed in the middle of a bind, the next process completes the bind: the
// request is Bound, and after its deletion nothing is in use. The next process ends by SIGTERM.
func TestKill9InTheMiddleOfABind(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		flags, faults string
	}{
		"after the answer":  {"--bind-delay 1h --bind-timeout 2h", `[]`},
		"before the answer": {"", `[{"operation": "accelerator.mdev.create", "action": "delay", "delay": "1h"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testKilledBind(t, strings.Fields(tt.flags), tt.faults)
		})
	}
}

func testKilledBind(t *testing.T, flags []string, faults string) {
	t.Helper()
	placement := start(t, "placement").env["CYSIM_PLACEMENT_URL"]
	addHost(t, placement, "cn0")
	tree, files := t.TempDir(), t.TempDir()
	machine, err := sysfs.Generate(sysfs.Description{Devices: []sysfs.PCIDevice{{
		Address: "0000:84:00.0", Vendor: "10de", Product: "1eb8", Class: "0302", Driver: "nvidia",
		MdevTypes: []sysfs.MdevType{{Type: "nvidia-35", Name: "GRID T4-1B", AvailableInstances: 16}},
	}}})
	must(t, err)
	must(t, machine.LayOut(tree))
	for name, text := range map[string]string{
		"faults": faults, "none": `[]`,
		"conf": "[gpu_devices]\nenabled_vgpu_types = nvidia-35\n[vgpu_nvidia-35]\ndevice_addresses = 0000:84:00.0\n",
	} {
		must(t, os.WriteFile(filepath.Join(files, name), []byte(text), 0o600))
	}
	state := filepath.Join(files, "state")
	args := []string{"cyborg", "--placement-url", placement, "--sysfs", tree, "--driver-config", filepath.Join(files, "conf"), "--host", "cn0", "--state", state, "--faults"}
	killed := startProcess(t, append(append(args, filepath.Join(files, "faults")), flags...)...)
	call := func(p *killedProcess, want int, method, path string, body any) []byte {
		t.Helper()
		status, answer, ok := p.call(method, path, cyborg22, "admin", body)
		if !ok || status != want {
			t.Fatalf("%s %s: %d %s; %s", method, path, status, answer, &p.stderr)
		}
		return answer
	}
	call(killed, http.StatusCreated, http.MethodPost, "/device_profiles", json.RawMessage(`[{"name": "p", "groups": [{"resources:VGPU": "1"}]}]`))
	var created struct{ ARQs []struct{ UUID string } }
	must(t, json.Unmarshal(call(killed, http.StatusCreated, http.MethodPost, "/accelerator_requests", map[string]string{"device_profile_name": "p"}), &created))
	request := "/accelerator_requests/" + created.ARQs[0].UUID
	_, list := reply(t, http.MethodGet, placement+"/resource_providers?name=cn0_0000%3A84%3A00.0", "", "X-Auth-Token: admin")
	const instance = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	answered := make(chan bool, 1)
	go func() {
		status, _, ok := killed.call(http.MethodPatch, "/accelerator_requests", cyborg22, "admin", json.RawMessage(fmt.Sprintf(`{%q: [
			{"op": "add", "path": "/hostname", "value": "cn0"}, {"op": "add", "path": "/instance_uuid", "value": %q}, {"op": "add", "path": "/device_rp_uuid", "value": %q}]}`,
			created.ARQs[0].UUID, instance, uuidOfOne(t, list))))
		answered <- ok && status == http.StatusAccepted
	}()
	for began := time.Now(); !strings.Contains(string(call(killed, http.StatusOK, http.MethodGet, request, nil)), `"BindStarted"`); {
		if time.Since(began) > time.Minute {
			t.Fatalf("the bind does not start: %s", &killed.stderr)
		}
	}
	if faults == `[]` && !<-answered {
		t.Error("the bind was refused")
	}
	// What is on the disk with this answer has the bind that came before.
	call(killed, http.StatusCreated, http.MethodPost, "/device_profiles", json.RawMessage(`[{"name": "q", "groups": [{"resources:VGPU": "1"}]}]`))
	killed.kill(t)

	next := startProcess(t, append(args, filepath.Join(files, "none"))...)
	shown := ""
	for began := time.Now(); !strings.Contains(shown, `"Bound"`); {
		shown = string(call(next, http.StatusOK, http.MethodGet, request, nil))
		if strings.Contains(shown, `"BindFailed"`) || strings.Contains(shown, `"Initial"`) || time.Since(began) > time.Minute {
			t.Fatalf("the bind was not finished: %s", shown)
		}
	}
	call(next, http.StatusNoContent, http.MethodDelete, "/accelerator_requests?instance="+instance, nil)
	must(t, next.command.Process.Signal(syscall.SIGTERM))
	if err := next.command.Wait(); err != nil {
		t.Errorf("got %v, want status 0; %s", err, &next.stderr)
	}
	status, out, stderr := cysim(t, "state", "show", state)
	if status != 0 || !strings.Contains(out, `"hardware.hosts"`) || strings.Contains(out, `"table":"accelerator.accelerator_requests"`) {
		t.Errorf("the state afterwards: %d %s%s", status, out, stderr)
	}
	for _, left := range []string{`"state":"held"`, `"held_by"`, `"type":"nvidia-35"`} {
		if strings.Contains(out, left) {
			t.Errorf("the state afterwards has %s: %s", left, out)
		}
	}
}
