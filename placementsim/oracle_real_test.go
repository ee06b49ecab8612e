//go:build oracle || differential

package placementsim

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/internal/differential"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// realLauncher serves the real Placement on a free port of the loopback
// interface, writes the port on its first line of output, and ends with its
// standard input.
//
//go:embed testdata/oracle/serve.py
var realLauncher string

// realPlacement is a running service of Debian's python3-placement.
type realPlacement struct {
	url    string
	client *http.Client
	log    *differential.Log
}

func startRealPlacement(t *testing.T) *realPlacement {
	t.Helper()
	python, dir := []string{"/usr/bin/python3"}, t.TempDir()
	if root := *oracleChroot; root != "" {
		python = []string{"chroot", root, "/usr/bin/python3"}
		inside, err := os.MkdirTemp(filepath.Join(root, "tmp"), "oracle")
		must(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(inside) })
		dir = strings.TrimPrefix(inside, filepath.Clean(root))
	}
	run := func(args ...string) *exec.Cmd {
		args = append(slices.Clone(python), args...)
		return exec.CommandContext(t.Context(), args[0], args[1:]...)
	}
	if err := run("-c", "import placement.wsgi").Run(); err != nil {
		t.Fatalf("the real Placement is not here (%v): install Debian's python3-placement (apt-get install python3-placement)", err)
	}
	service := &realPlacement{
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, Timeout: time.Minute},
		log:    new(differential.Log),
	}
	cmd := run("-W", "ignore", "-B", "-c", realLauncher, dir)
	cmd.Stderr = service.log
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	port, notNumber := strconv.Atoi(strings.TrimSpace(line))
	if err := errors.Join(err, notNumber); err != nil {
		t.Fatalf("start the real Placement: %v: %s", err, service.log.Tail())
	}
	service.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	return service
}

// reset makes the real service forget everything.
func (r *realPlacement) reset(t *testing.T) {
	t.Helper()
	resp, err := r.client.Post(r.url+"/reset-for-oracle", "", nil)
	if err != nil {
		t.Fatalf("reset the real Placement: %v: %s", err, r.log.Tail())
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("reset the real Placement: got status %d: %s", resp.StatusCode, r.log.Tail())
	}
}

// oraclePair is the real service and ours. Uuids that the services invent
// differ, so the requests and the compared answers have labels in their place.
type oraclePair struct {
	theirs        *realPlacement
	ours          *Server
	realIDs       idLabels
	oursIDs       idLabels
	labelled      int
	oursTransport http.RoundTripper
}

// idLabels relates invented uuids to labels, alternating as
// [strings.NewReplacer] wants them.
type idLabels struct{ toLabel, toID []string }

func (l *idLabels) add(id, label string) {
	l.toLabel = append(l.toLabel, id, label)
	l.toID = append(l.toID, label, id)
}

func (l *idLabels) labels(s string) string { return strings.NewReplacer(l.toLabel...).Replace(s) }
func (l *idLabels) ids(s string) string    { return strings.NewReplacer(l.toID...).Replace(s) }

func newOraclePair(t *testing.T) *oraclePair {
	t.Helper()
	return &oraclePair{theirs: startRealPlacement(t)}
}

// reset empties both services.
func (p *oraclePair) reset(t *testing.T) {
	t.Helper()
	p.theirs.reset(t)
	cfg := Config{Seed: 1, Release: ReleaseZed, UpstreamQuirks: true}
	if *oracleChroot != "" {
		cfg.Release = Release20262
	}
	p.ours = newServer(t, cfg)
	p.oursTransport = simhttp.NewTransport(p.ours)
	p.realIDs, p.oursIDs, p.labelled = idLabels{}, idLabels{}, 0
}

// ask sends a request to both services and returns our answer and how it
// differs from the real one, empty for not at all.
func (p *oraclePair) ask(t *testing.T, req oracleRequest) (answer, string) {
	t.Helper()
	theirs, ours := p.both(t, req)
	difference := compareAnswers(req, theirs, ours)
	if difference == "" && req.limited() && ours.status == http.StatusOK {
		allReal, allOurs := p.both(t, req.unlimited())
		difference = compareLimited(req, theirs, allReal, ours, allOurs)
	}
	if difference != "" && theirs.status == http.StatusInternalServerError {
		difference += "\n" + p.theirs.log.Tail()
	}
	return ours, difference
}

func (p *oraclePair) both(t *testing.T, req oracleRequest) (theirs, ours answer) {
	t.Helper()
	theirs = exchange(t, p.theirs.client.Transport, p.theirs.url, req, &p.realIDs)
	ours = exchange(t, p.oursTransport, "http://placement.example", req, &p.oursIDs)
	if req.invents && theirs.status < 300 && ours.status < 300 {
		p.labelled++
		label := fmt.Sprintf("99999999-9999-4999-8999-%012d", p.labelled)
		p.realIDs.add(createdUUID(theirs), label)
		p.oursIDs.add(createdUUID(ours), label)
		theirs, ours = theirs.translated(&p.realIDs), ours.translated(&p.oursIDs)
	}
	return theirs, ours
}

// createdUUID is the last segment of an answer's location.
func createdUUID(a answer) string {
	location := a.header.Get("Location")
	return location[strings.LastIndexByte(location, '/')+1:]
}

func (a answer) translated(ids *idLabels) answer {
	header := make(http.Header)
	for name, values := range a.header {
		for _, value := range values {
			header.Add(name, ids.labels(value))
		}
	}
	return answer{a.status, header, ids.labels(a.body)}
}

// exchange sends a request by a transport.
func exchange(t *testing.T, transport http.RoundTripper, base string, req oracleRequest, ids *idLabels) answer {
	t.Helper()
	var body io.Reader
	if req.body != "" {
		body = strings.NewReader(ids.ids(req.body))
	}
	target, err := url.Parse(base + ids.ids(req.target))
	if err != nil {
		t.Fatalf("%s: %v", req.curl(), err)
	}
	r, err := http.NewRequestWithContext(t.Context(), req.method, base, body)
	if err != nil {
		t.Fatalf("%s: %v", req.curl(), err)
	}
	r.URL = target
	for _, pair := range req.header {
		r.Header.Set(pair[0], pair[1])
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s: %v", req.curl(), err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: read the answer: %v", req.curl(), err)
	}
	return answer{resp.StatusCode, resp.Header, string(data)}.translated(ids)
}
