package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
)

// No acknowledged change may be lost, whenever the process is killed. Several users change
// a cloud at a time, each their own objects, and record the acknowledgements; the process is
// killed in between; and the state of the next process is compared with the record.
func TestKill9LosesNoAcknowledgedChange(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state")
	random := rand.New(rand.NewPCG(7, 0))
	users := make([]*killUser, 4)
	for i := range users {
		users[i] = newKillUser(i)
	}
	for round := range kills + 1 {
		served := startProcess(t, "serve", "--state", file, "--seed", "3")
		for _, u := range users {
			u.settle(t, served)
		}
		if round < kills {
			served.killUnderLoad(t, users, 1+random.Int64N(60))
		} else {
			served.kill(t)
		}
	}
	changes := 0
	for _, u := range users {
		changes += u.told
	}
	t.Logf("%d kills, %d changes acknowledged", kills, changes)
	if changes < kills {
		t.Error("too few to be a test")
	}
}

// killedProcess is a cysim of its own.
type killedProcess struct {
	command *exec.Cmd
	stderr  lockedBuffer
	url     string
}

// startProcess returns when the process has printed its URL, in the first of its export lines that ends
// in _URL, and is ready.
func startProcess(t *testing.T, args ...string) *killedProcess {
	t.Helper()
	p := &killedProcess{command: exec.Command(os.Args[0], args...)}
	p.command.Env = append(os.Environ(), asCommand+"=1")
	p.command.Stderr = &p.stderr
	stdout, err := p.command.StdoutPipe()
	must(t, err)
	must(t, p.command.Start())
	t.Cleanup(func() { _ = p.command.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		if strings.HasSuffix(name, "_URL") && strings.HasPrefix(name, "export CYSIM_") {
			p.url = value
		}
		if strings.HasPrefix(lines.Text(), "export CYSIM_PID=") {
			break
		}
	}
	if p.url == "" {
		t.Fatalf("cysim ended before it listened: %s", &p.stderr)
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	return p
}

func (p *killedProcess) kill(t *testing.T) {
	t.Helper()
	if err := p.command.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = p.command.Wait() // it was killed
}

// killUnderLoad lets the users work and kills the process after some acknowledgements.
func (p *killedProcess) killUnderLoad(t *testing.T, users []*killUser, after int64) {
	t.Helper()
	var acknowledged atomic.Int64
	enough := make(chan struct{})
	var once sync.Once
	var working sync.WaitGroup
	for _, u := range users {
		working.Go(func() {
			for u.step(p) {
				if acknowledged.Add(1) >= after {
					once.Do(func() { close(enough) })
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { working.Wait(); close(ended) }()
	select {
	case <-enough:
	case <-ended:
		t.Fatalf("the users could not work: %s", &p.stderr)
	}
	p.kill(t)
	<-ended
}

// call sends a request; it reports false when no whole answer came.
func (p *killedProcess) call(method, path, version, token string, body any) (status int, answer []byte, ok bool) {
	var data []byte
	if body != nil {
		data, _ = json.Marshal(body) // maps and strings
	}
	request, err := http.NewRequest(method, p.url+path, bytes.NewReader(data))
	if err != nil {
		return 0, nil, false
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("OpenStack-API-Version", version)
	request.Header.Set("X-Auth-Token", token)
	request.Header.Set("X-Service-Token", token)
	response, err := direct.Do(request)
	if err != nil {
		return 0, nil, false
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if token = response.Header.Get("X-Subject-Token"); token != "" {
		answer = []byte(token)
	}
	return response.StatusCode, answer, err == nil
}

// killUser changes its own objects, one after the other.
type killUser struct {
	number int
	random *rand.Rand
	token  string
	told   int
	err    error
	// is the last acknowledged state of each object, "" for a missing one; maybe is the
	// state that the request in progress would have made.
	is    map[string]string
	maybe map[string]string
	arqs  []string
}

func newKillUser(number int) *killUser {
	return &killUser{
		number: number, random: rand.New(rand.NewPCG(uint64(number), 1)),
		is: make(map[string]string), maybe: make(map[string]string),
	}
}

func (u *killUser) name(kind string, n int) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s/%d/%d", kind, u.number, n)).String()
}

// change makes one change; it reports false if no answer came.
func (u *killUser) change(p *killedProcess, want int, thing, becomes, method, path, version string, body any) bool {
	u.maybe[thing] = becomes
	status, answer, ok := p.call(method, path, version, u.token, body)
	if !ok {
		return false
	}
	if status != want {
		u.err = fmt.Errorf("user %d: %s %s: got %d, want %d: %s", u.number, method, path, status, want, answer)
		return false
	}
	delete(u.maybe, thing)
	u.is[thing] = becomes
	u.told++
	return true
}

const (
	anyVersion   = "placement 1.28"
	cyborg22     = "accelerator 2.2"
	serviceLogin = `{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": "cyborg", "domain": {"id": "default"}, "password": "secret"}}},
		"scope": {"project": {"name": "service", "domain": {"id": "default"}}}}}`
)

// step makes one change, chosen by the seed.
func (u *killUser) step(p *killedProcess) bool {
	if u.err != nil {
		return false
	}
	if u.token == "" {
		status, token, ok := p.call(http.MethodPost, "/identity/v3/auth/tokens", "", "", json.RawMessage(serviceLogin))
		if !ok || status != http.StatusCreated {
			return false
		}
		u.token = string(token)
		return true
	}
	switch n := u.random.IntN(8); u.random.IntN(4) {
	case 0:
		return u.stepGuest(p, u.name("guest", n))
	case 1:
		return u.stepProvider(p, u.name("provider", n))
	case 2:
		return u.stepAllocation(p, u.name("consumer", n))
	}
	return u.stepARQ(p)
}

func (u *killUser) stepGuest(p *killedProcess, id string) bool {
	thing, path := "guest "+id, "/_sim/guests/"+id
	if u.is[thing] == "" {
		return u.change(p, http.StatusOK, thing, "cn0", http.MethodPut, path, "", map[string]string{"host": "cn0"})
	}
	return u.change(p, http.StatusNoContent, thing, "", http.MethodDelete, path, "", nil)
}

func (u *killUser) stepProvider(p *killedProcess, id string) bool {
	thing := "provider " + id
	if u.is[thing] == "" {
		return u.change(p, http.StatusOK, thing, "there", http.MethodPost, "/placement/resource_providers", anyVersion, map[string]string{"uuid": id, "name": id})
	}
	return u.change(p, http.StatusNoContent, thing, "", http.MethodDelete, "/placement/resource_providers/"+id, anyVersion, nil)
}

// stepAllocation claims a processor of a host, and releases it.
func (u *killUser) stepAllocation(p *killedProcess, id string) bool {
	thing, path := "allocation "+id, "/placement/allocations/"+id
	if u.is[thing] != "" {
		return u.change(p, http.StatusNoContent, thing, "", http.MethodDelete, path, anyVersion, nil)
	}
	return u.change(p, http.StatusNoContent, thing, "there", http.MethodPut, path, anyVersion, map[string]any{
		"allocations":         map[string]any{u.root(p): map[string]any{"resources": map[string]int{"VCPU": 1}}},
		"consumer_generation": nil, "project_id": "p", "user_id": "u",
	})
}

func (u *killUser) provider(p *killedProcess, name string) string {
	_, answer, ok := p.call(http.MethodGet, "/placement/resource_providers?name="+name, anyVersion, u.token, nil)
	var body struct {
		Providers []struct{ UUID string } `json:"resource_providers"`
	}
	if !ok || json.Unmarshal(answer, &body) != nil || len(body.Providers) != 1 {
		return ""
	}
	return body.Providers[0].UUID
}

func (u *killUser) root(p *killedProcess) string { return u.provider(p, "cn0") }

// stepARQ creates, binds or deletes a request for a vGPU, which is created on the host.
func (u *killUser) stepARQ(p *killedProcess) bool {
	for _, id := range u.arqs {
		thing := "request " + id
		switch state := u.is[thing]; {
		case state == "Initial":
			gpu := u.provider(p, "cn0_0000%3Aaf%3A00.0")
			patch := func(path, value string) map[string]string {
				return map[string]string{"op": "add", "path": path, "value": value}
			}
			return u.change(p, http.StatusAccepted, thing, "Bound", http.MethodPatch, "/accelerator/v2/accelerator_requests", cyborg22, map[string]any{
				id: []any{patch("/hostname", "cn0"), patch("/device_rp_uuid", gpu), patch("/instance_uuid", u.name("instance of "+id, 0))},
			})
		case state == "Bound" && u.random.IntN(2) == 0:
			return u.change(p, http.StatusNoContent, thing, "", http.MethodDelete, "/accelerator/v2/accelerator_requests?arqs="+id, cyborg22, nil)
		}
	}
	if len(u.arqs) > 0 && u.is["request "+u.arqs[len(u.arqs)-1]] != "" {
		return true // keeps its accelerator for now
	}
	status, answer, ok := p.call(http.MethodPost, "/accelerator/v2/accelerator_requests", cyborg22, u.token, map[string]string{"device_profile_name": "vgpu"})
	var body struct{ ARQs []struct{ UUID string } }
	if !ok {
		return false // its uuid is not known
	}
	if status != http.StatusCreated || json.Unmarshal(answer, &body) != nil || len(body.ARQs) != 1 {
		u.err = fmt.Errorf("user %d: create a request: %d %s", u.number, status, answer)
		return false
	}
	u.arqs = append(u.arqs, body.ARQs[0].UUID)
	u.is["request "+body.ARQs[0].UUID] = "Initial"
	u.told++
	return true
}

// settle compares the state of the process with the acknowledgements, and finds the result
// of the request that was in progress.
func (u *killUser) settle(t *testing.T, p *killedProcess) {
	t.Helper()
	if u.err != nil {
		t.Fatalf("%v; %s", u.err, &p.stderr)
	}
	for thing, was := range u.is {
		kind, id, _ := strings.Cut(thing, " ")
		got := u.look(t, p, kind, id)
		maybe, open := u.maybe[thing]
		if got != was && !(open && got == maybe) {
			t.Errorf("user %d: %s is %q after the kill, was acknowledged as %q (under way: %v %q)", u.number, thing, got, was, open, maybe)
		}
		u.is[thing] = got
	}
	for thing := range u.maybe {
		kind, id, _ := strings.Cut(thing, " ")
		u.is[thing] = u.look(t, p, kind, id)
	}
	clear(u.maybe)
}

// look reads the state of an object.
func (u *killUser) look(t *testing.T, p *killedProcess, kind, id string) string {
	t.Helper()
	path, version := map[string][2]string{
		"guest": {"/_sim/guests/" + id}, "provider": {"/placement/resource_providers/" + id, anyVersion},
		"allocation": {"/placement/allocations/" + id, anyVersion}, "request": {"/accelerator/v2/accelerator_requests/" + id, cyborg22},
	}[kind][0], anyVersion
	if kind == "request" {
		version = cyborg22
	}
	status, answer, ok := p.call(http.MethodGet, path, version, u.token, nil)
	if !ok || status != http.StatusOK && status != http.StatusNotFound {
		t.Fatalf("user %d: GET %s: %d %s; %s", u.number, path, status, answer, &p.stderr)
	}
	var body struct {
		State       string         `json:"state"`
		Allocations map[string]any `json:"allocations"`
	}
	if err := json.Unmarshal(answer, &body); err != nil && status == http.StatusOK {
		t.Fatal(err)
	}
	switch {
	case status == http.StatusNotFound, kind == "allocation" && len(body.Allocations) == 0:
		return ""
	case kind == "guest":
		return "cn0"
	case kind == "request":
		return body.State
	}
	return "there"
}
