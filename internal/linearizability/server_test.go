//go:build histories

package linearizability

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gocyborg/gocyborg/simcloud"
)

// server is a cysim that is killed and started again, with the same state.
type server struct {
	binary, folder string
	client         *http.Client
	calls, due     atomic.Int64  // the process is ended at the call that is due
	isDue          chan struct{} // gets a value then
	ends           atomic.Int64  // how often it was killed or ended

	mu      sync.Mutex
	up      sync.Cond
	url     string // "" while there is no process
	failure error  // it could not be started
	command *exec.Cmd
	token   string
}

// startServer serves hosts cn0, cn1 and so on, with two GPUs each.
func startServer(t *testing.T, hosts int) *server {
	t.Helper()
	s := &server{folder: t.TempDir(), isDue: make(chan struct{}, 1), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	s.up.L = &s.mu
	s.due.Store(math.MaxInt64)
	s.binary = filepath.Join(s.folder, "cysim")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", s.binary, "../../cmd/cysim").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	model, err := json.Marshal(simcloud.ScaleModel(hosts, 2))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("model.json"), model, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	if s.token, err = s.login(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) path(name string) string { return filepath.Join(s.folder, name) }

// start returns when the process listens.
func (s *server) start() error {
	command := exec.Command(s.binary, "serve", "--model", s.path("model.json"), "--state", s.path("state"), "--token-lifetime", "1000h")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	url := ""
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "export CYSIM_URL="); ok {
			url = value
		}
		if strings.HasPrefix(lines.Text(), "export CYSIM_PID=") {
			break
		}
	}
	if url == "" {
		return fmt.Errorf("cysim did not start: %v: %s", command.Wait(), &stderr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.command, s.url = command, url
	s.up.Broadcast()
	return nil
}

// end ends the process with a signal and waits for it.
func (s *server) end(signal os.Signal) {
	s.mu.Lock()
	command := s.command
	s.url, s.command = "", nil
	s.mu.Unlock()
	if command == nil {
		return
	}
	_ = command.Process.Signal(signal)
	_ = command.Wait() // it was killed
	s.ends.Add(1)
}

// address waits for a process.
func (s *server) address() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.url == "" && s.failure == nil {
		s.up.Wait()
	}
	return s.url, s.failure
}

// endOften kills the process, and at times ends it with SIGTERM, each time after so many calls on average, until stop
// is closed. It sets the faults of the new process.
func (s *server) endOften(random *rand.Rand, every int64, stop <-chan struct{}) {
	for {
		s.due.Store(s.calls.Load() + random.Int64N(2*every))
		select {
		case <-stop:
			return
		case <-s.isDue:
		}
		signal := os.Signal(syscall.SIGKILL)
		if random.IntN(4) == 0 {
			signal = syscall.SIGTERM
		}
		s.end(signal)
		err := s.start()
		if err == nil {
			err = s.setFaults(random)
		}
		if err != nil {
			s.mu.Lock()
			s.failure = err
			s.up.Broadcast()
			s.mu.Unlock()
			return
		}
	}
}

// setFaults makes one request in some hundreds fail, before or after it was executed.
func (s *server) setFaults(random *rand.Rand) error {
	type rule struct {
		Operation   string  `json:"operation"`
		Action      string  `json:"action"`
		When        string  `json:"when,omitempty"`
		Status      int     `json:"status,omitempty"`
		Delay       string  `json:"delay,omitempty"`
		Probability float64 `json:"probability"`
	}
	var rules []rule
	for _, operation := range []string{
		"placement.inventories.put", "placement.rp_traits.put", "placement.allocations.put", "placement.allocations.post", "placement.allocations.delete",
		"placement.reshaper.post", "placement.inventories.get", "placement.allocations.get", "accelerator.arq.bind", "accelerator.arq.delete", "accelerator.arq.get",
	} {
		faults := []rule{
			{Action: "drop", When: "before"}, {Action: "drop", When: "after"}, {Action: "truncate"}, {Action: "malformed"},
			{Action: "status", Status: 503}, {Action: "status", Status: 503, When: "after"}, {Action: "proxy"}, {Action: "delay", Delay: "2ms"},
		}
		chosen := faults[random.IntN(len(faults))]
		chosen.Operation, chosen.Probability = operation, 0.002
		rules = append(rules, chosen)
	}
	answer := s.send(http.MethodPut, "/_sim/faults", "", rules)
	if answer.status/100 != 2 {
		return fmt.Errorf("set faults: %d %s", answer.status, answer.body)
	}
	return nil
}

// answer is what a client got; the status is 0 if it got none that it can rely on.
type answer struct {
	status int
	body   []byte
	header http.Header
}

// decode reads the body; one that cannot be read leaves value as it is.
func (a answer) decode(value any) { _ = json.Unmarshal(a.body, value) }

// code is the code of a Placement error, or the text of a Cyborg error.
func (a answer) code() string {
	var body struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
		Message string `json:"error_message"`
	}
	a.decode(&body)
	if len(body.Errors) > 0 {
		return body.Errors[0].Code
	}
	return body.Message
}

// send makes a request. Only statuses that show an outcome are answers.
func (s *server) send(method, path, version string, body any) answer {
	return s.sendBy(s.client, method, path, version, body)
}

func (s *server) sendBy(client *http.Client, method, path, version string, body any) answer {
	url, err := s.address()
	if err != nil {
		return answer{}
	}
	if due := s.due.Load(); s.calls.Add(1) > due && s.due.CompareAndSwap(due, math.MaxInt64) {
		s.isDue <- struct{}{}
	}
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			panic(err) // maps and numbers
		}
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequest(method, url+path, reader)
	if err != nil {
		panic(err) // built of constants and UUIDs
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Auth-Token", s.token)
	request.Header.Set("X-Service-Token", s.token)
	request.Header.Set("OpenStack-API-Version", version)
	response, err := client.Do(request)
	if err != nil {
		return answer{}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 500 || len(data) > 0 && !json.Valid(data) {
		return answer{}
	}
	return answer{response.StatusCode, data, response.Header}
}

func (s *server) login() (string, error) {
	type m = map[string]any
	domain := m{"id": "default"}
	a := s.send(http.MethodPost, "/identity/v3/auth/tokens", "", m{"auth": m{
		"identity": m{"methods": []string{"password"}, "password": m{"user": m{"name": "cyborg", "domain": domain, "password": simcloud.Password}}},
		"scope":    m{"project": m{"name": "service", "domain": domain}},
	}})
	if token := a.header.Get("X-Subject-Token"); token != "" {
		return token, nil
	}
	return "", errors.New("no token: " + string(a.body))
}
