//go:build drill && unix

package spawn_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/internal/boltfile"
	"github.com/gocyborg/gocyborg/simcloud"
)

// agentVariable has the task of a process that is to be killed.
const agentVariable = "GOCYBORG_TEST_AGENT"

// agentTask is the task of an agent process, with the cloud of the process that kills it: it runs an operation, or it
// recovers the operation of another process and runs it again.
type agentTask struct {
	Exercise string
	Recovers bool
	// CreatesMdevs says that the hypervisor defines mediated devices.
	CreatesMdevs bool
	Instance     spawn.Instance
	Socket       string // of the cloud, its guests and this protocol
	Dir          string // of the journal files
	Endpoint     string
	Now          time.Time
}

// agentReport is how an operation or a recovery has ended.
type agentReport struct {
	Instance  spawn.Instance
	Err       string            // of the operation
	Moved     *spawn.MovedError // Err is one
	IsDamaged bool              // Err matches journal.ErrDamaged
	Named     []spawn.Leftover
}

// guestCall is a call of the hypervisor.
type guestCall struct {
	Instance spawn.Instance
	Domain   []byte
	ARQ      cyborgclient.ARQ
}

type guestAnswer struct {
	Domain    []byte
	IsRunning bool
	IsNoGuest bool
	Err       string
}

// The paths of the protocol. Other ones are the cloud's.
const (
	beginPath  = "/agent/begin"  // calls are counted from here until a report
	reportPath = "/agent/report" // the answer is whether to run the operation again
	guestsPath = "/agent/guests/"
)

// TestAgentProcess is the process of an agent, in virtual time. The clock stops during a request.
func TestAgentProcess(t *testing.T) {
	data := os.Getenv(agentVariable)
	if data == "" {
		return // of TestDrillSIGKILL
	}
	var task agentTask
	settled(t, json.Unmarshal([]byte(data), &task))
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(task.Now))
		task.run(t)
	})
}

func (task agentTask) run(t *testing.T) {
	line := socketLine{task.Socket}
	s := task.site(t, line, "journal")
	if s == nil {
		return
	}
	another := sync.OnceValue(func() *site { return task.site(t, line, "journal of the compute side") })
	list := killable(func(context.Context) (*spawn.Flow, error) { return another().flow, nil })
	e := list[slices.IndexFunc(list, func(e exercise) bool { return e.name == task.Exercise })]
	line.post(t, beginPath, nil, nil)
	if task.Recovers {
		var named []spawn.Leftover
		if e.name == handoverToAnother {
			named = another().recovered(t, true)
		}
		named = append(named, s.recovered(t, true)...)
		if !line.report(t, agentReport{Instance: task.Instance, Named: named}) {
			return
		}
	}
	i := task.Instance
	report := agentReport{Instance: i}
	if err := e.run(t.Context(), s, &i); err != nil {
		report.Err = err.Error()
		errors.As(err, &report.Moved)
	}
	report.Instance = i
	line.report(t, report)
}

// site returns the flow of an agent with a journal file. If the file is damaged it reports that and returns nil.
func (task agentTask) site(t *testing.T, line socketLine, name string) *site {
	t.Helper()
	store, err := journal.Open(filepath.Join(task.Dir, name))
	if errors.Is(err, journal.ErrDamaged) {
		line.report(t, agentReport{Err: err.Error(), IsDamaged: true})
		return nil
	}
	settled(t, err)
	t.Cleanup(func() { store.Close() })
	var guests spawn.Hypervisor = &remoteGuests{line}
	if task.CreatesMdevs {
		guests = &remoteMdevs{&remoteGuests{line}}
	}
	flow, err := spawn.NewFromProvider(task.provider(t, line, "admin", "admin"),
		spawn.WithServiceProvider(task.provider(t, line, "nova", "service")), spawn.WithJournal(store), spawn.WithHypervisor(guests),
		spawn.WithConfig(spawn.Config{PlacementOrder: true, ExclusiveProject: true}))
	settled(t, err)
	s := &site{world: &world{flow: flow, cyborg: flow.Cyborg()}, guests: &hypervisor{elsewhere: guests}}
	s.renew(t)
	return s
}

func (task agentTask) provider(t *testing.T, line socketLine, user, project string) *gophercloud.ProviderClient {
	t.Helper()
	provider, err := openstack.NewClient(task.Endpoint + "/identity/v3")
	settled(t, err)
	provider.HTTPClient = http.Client{Transport: line}
	settled(t, openstack.Authenticate(t.Context(), provider, gophercloud.AuthOptions{
		Username: user, Password: "secret", DomainName: "Default", AllowReauth: true,
		Scope: &gophercloud.AuthScope{ProjectName: project, DomainName: "Default"},
	}))
	return provider
}

// socketLine sends each request over a new connection, so that no goroutine waits for the network between two
// requests, while the clock advances.
type socketLine struct{ path string }

// RoundTrip implements http.RoundTripper.
func (l socketLine) RoundTrip(req *http.Request) (*http.Response, error) {
	conn, err := net.Dial("unix", l.path)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(res.Body)
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, err
}

// post sends a document of the protocol and reads the answer.
func (l socketLine) post(t *testing.T, path string, document, answer any) {
	t.Helper()
	settled(t, l.send(path, document, answer))
}

func (l socketLine) send(path string, document, answer any) error {
	data, err := json.Marshal(document)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, "http://cloud"+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	res, err := l.RoundTrip(req)
	if err != nil || answer == nil {
		return err
	}
	return json.NewDecoder(res.Body).Decode(answer)
}

// report returns whether to run the operation again.
func (l socketLine) report(t *testing.T, r agentReport) (again bool) {
	t.Helper()
	l.post(t, reportPath, r, &again)
	return again
}

// remoteGuests is the hypervisor of an agent process. Its guests outlive the process.
type remoteGuests struct{ line socketLine }

func (r *remoteGuests) call(name string, call guestCall) (answer guestAnswer, err error) {
	if err := r.line.send(guestsPath+url.PathEscape(name), call, &answer); err != nil {
		return answer, err
	}
	switch {
	case answer.IsNoGuest:
		return answer, fmt.Errorf("%s: %w", answer.Err, spawn.ErrNoGuest)
	case answer.Err != "":
		return answer, errors.New(answer.Err)
	}
	return answer, nil
}

func (r *remoteGuests) do(name string, i spawn.Instance) error {
	_, err := r.call(name, guestCall{Instance: i})
	return err
}

// Domain implements spawn.Hypervisor.
func (r *remoteGuests) Domain(_ context.Context, i spawn.Instance) (domain []byte, running bool, err error) {
	answer, err := r.call("domain", guestCall{Instance: i})
	return answer.Domain, answer.IsRunning, err
}

// Define implements spawn.Hypervisor.
func (r *remoteGuests) Define(_ context.Context, i spawn.Instance, domain []byte) error {
	_, err := r.call("define", guestCall{Instance: i, Domain: domain})
	return err
}

// Start implements spawn.Hypervisor.
func (r *remoteGuests) Start(_ context.Context, i spawn.Instance) error { return r.do("start", i) }

// Shutdown implements spawn.Hypervisor.
func (r *remoteGuests) Shutdown(_ context.Context, i spawn.Instance) error {
	return r.do("shutdown", i)
}

// Destroy implements spawn.Hypervisor.
func (r *remoteGuests) Destroy(_ context.Context, i spawn.Instance) error { return r.do("destroy", i) }

// Undefine implements spawn.Hypervisor.
func (r *remoteGuests) Undefine(_ context.Context, i spawn.Instance) error {
	return r.do("undefine", i)
}

// remoteMdevs is a hypervisor that defines mediated devices, too.
type remoteMdevs struct{ *remoteGuests }

// CreateMdev implements spawn.MdevCreator.
func (r remoteMdevs) CreateMdev(_ context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	_, err := r.call("create mdev", guestCall{Instance: i, ARQ: arq})
	return err
}

// RemoveMdev implements spawn.MdevRemover.
func (r remoteMdevs) RemoveMdev(_ context.Context, i spawn.Instance, arq cyborgclient.ARQ) error {
	_, err := r.call("remove mdev", guestCall{Instance: i, ARQ: arq})
	return err
}

const handoverToAnother = "handover to another process"

// killable are the recorded operations, as an agent process runs them. The compute side of a handover has its own
// journal.
func killable(compute func(context.Context) (*spawn.Flow, error)) []exercise {
	list := recoverable()
	for n, e := range list {
		switch e.name {
		case "spawn", "delete", "shelve offload", "unshelve": // and with mediated devices that the hypervisor defines
			defined := e
			defined.name, defined.model = e.name+" of a vGPU that Nova creates", novaMdevModel
			list = append(list, defined)
		case "local delete": // the process that has the guests removes its guest
			list[n].run = func(ctx context.Context, s *site, i *spawn.Instance) error { return s.ops.LocalDelete(ctx, *i) }
			list[n].done = func(s *site, i spawn.Instance) error {
				s.cloud.RemoveGuest(i.UUID)
				return gone(s, i)
			}
		case "handover":
			another := e
			another.name = handoverToAnother
			another.run = func(ctx context.Context, s *site, i *spawn.Instance) error {
				req := request("mixed")
				result, err := handOver(ctx, s.flow, compute, req)
				if err == nil {
					*i = spawn.InstanceOf(req, result)
				}
				return err
			}
			list = append(list, another)
		}
	}
	return list
}

// fleet has the cloud and the guests of one operation, and kills the process that runs it at one of its calls.
type fleet struct {
	site   *site
	socket string

	mu      sync.Mutex
	process *exec.Cmd
	isDead  bool // the process was killed
	at      moment
	armed   bool
	calls   int    // since the operation began
	late    func() // serves the request that the process was killed before
	reports chan agentReport
	again   chan bool
}

// newFleet serves a site on a socket, until the test ends.
func newFleet(t *testing.T, s *site, dir string) *fleet {
	t.Helper()
	f := &fleet{site: s, socket: filepath.Join(dir, "socket"), reports: make(chan agentReport), again: make(chan bool)}
	listener, err := net.Listen("unix", f.socket)
	settled(t, err)
	server := &http.Server{Handler: f}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return f
}

// ServeHTTP implements http.Handler.
func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close")
	switch {
	case r.URL.Path == beginPath:
		f.mu.Lock()
		f.armed, f.calls = true, 0
		f.mu.Unlock()
	case r.URL.Path == reportPath:
		var report agentReport
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			report.Err = "report: " + err.Error()
		}
		f.mu.Lock()
		f.armed = false
		f.mu.Unlock()
		f.reports <- report
		json.NewEncoder(w).Encode(<-f.again)
	case strings.HasPrefix(r.URL.Path, guestsPath):
		f.call(func() {
			var call guestCall
			if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			json.NewEncoder(w).Encode(f.guest(r.Context(), strings.TrimPrefix(r.URL.Path, guestsPath), call))
		})
	default:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		serve := func(w http.ResponseWriter) {
			sent := r.Clone(context.Background())
			sent.Body = io.NopCloser(bytes.NewReader(body))
			f.site.cloud.Handler().ServeHTTP(w, sent)
		}
		f.callOr(func() { serve(w) }, func() { serve(httptest.NewRecorder()) })
	}
}

// guest calls the hypervisor.
func (f *fleet) guest(ctx context.Context, name string, call guestCall) (answer guestAnswer) {
	guests, i := f.site.guests, call.Instance
	var err error
	switch name {
	case "domain":
		answer.Domain, answer.IsRunning, err = guests.Domain(ctx, i)
	case "define":
		err = guests.Define(ctx, i, call.Domain)
	case "create mdev":
		err = guests.creator().CreateMdev(ctx, i, call.ARQ)
	case "remove mdev":
		err = guests.creator().(spawn.MdevRemover).RemoveMdev(ctx, i, call.ARQ)
	default:
		err = map[string]func(context.Context, spawn.Instance) error{
			"start": guests.Start, "shutdown": guests.Shutdown, "destroy": guests.Destroy, "undefine": guests.Undefine,
		}[name](ctx, i)
	}
	if err != nil {
		answer.Err, answer.IsNoGuest = err.Error(), errors.Is(err, spawn.ErrNoGuest)
	}
	return answer
}

// call serves a request or a hypervisor call, one at a time. The process may be killed before or after it, and then
// gets no response.
func (f *fleet) call(serve func()) { f.callOr(serve, nil) }

// callOr is call for a request that may arrive late, after the process that sent it was killed.
func (f *fleet) callOr(serve, late func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isDead {
		panic(http.ErrAbortHandler)
	}
	isLast := false
	if f.armed {
		f.calls++
		isLast = f.calls == f.at.calls
		if f.calls == f.at.late && f.late != nil {
			f.late()
		}
	}
	if !isLast || !f.at.before {
		serve()
	}
	if isLast {
		if f.late = nil; f.at.before {
			f.late = late
		}
		f.isDead = true
		f.process.Process.Signal(syscall.SIGKILL)
		panic(http.ErrAbortHandler)
	}
}

// moment is when a process is killed and when a late request takes effect.
type moment struct {
	death
	late int // before this call; 0: never
}

// run runs a process until its next report, or until it is killed. End ends it.
func (f *fleet) run(t *testing.T, task agentTask, at moment) (report agentReport, isKilled bool, end func(again bool) agentReport) {
	t.Helper()
	data, err := json.Marshal(task)
	settled(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestAgentProcess$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), agentVariable+"="+string(data))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	f.mu.Lock()
	f.process, f.isDead, f.at, f.armed = cmd, false, at, false
	err = cmd.Start()
	f.mu.Unlock()
	settled(t, err)
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	next := func() (agentReport, bool) {
		select {
		case r := <-f.reports:
			return r, false
		case err := <-exited:
			f.mu.Lock()
			isKilled := f.isDead
			f.mu.Unlock()
			if !isKilled || err == nil || err.Error() != "signal: killed" {
				t.Fatalf("the process: %v\n%s", err, out.String())
			}
			return agentReport{}, true
		}
	}
	end = func(again bool) (last agentReport) {
		f.again <- again
		if again {
			last, _ = next()
			f.again <- false
		}
		if err := <-exited; err != nil {
			t.Errorf("the process: %v\n%s", err, out.String())
		}
		return last
	}
	report, isKilled = next()
	return report, isKilled, end
}

// ordeal is an exercise whose process is killed. It may change the journal file before the next process opens it.
type ordeal struct {
	exercise
	at     death
	then   death // of the process that recovers; none: it ends
	late   int   // the call of the process that recovers before which the request arrives that the first one was killed before; 0: it is lost
	damage func(t *testing.T, path string, random *rand.Rand) (isDamaged bool)
}

func (o ordeal) String() string {
	name := fmt.Sprintf("%s/%s", o.name, o.at)
	if o.damage != nil {
		name += ", the file is changed"
	}
	if o.late > 0 {
		name += fmt.Sprintf(", it arrives before call %d", o.late)
	}
	if o.then.calls > 0 {
		name += fmt.Sprintf(", then %s", o.then)
	}
	return name
}

// killed runs the operation in a process that is killed, and recovers it from the file in another one. If the process
// was not killed it returns the number of calls of the operation.
func (o ordeal) killed(t *testing.T) (calls int) {
	opts := worldOpts{}
	if o.model != nil {
		opts.model = o.model()
	}
	s := newSite(t, opts)
	i, err := o.prepare(t.Context(), s)
	settled(t, err)
	s.cloud.CheckNoLeaks(t)
	dir := t.TempDir()
	f := newFleet(t, s, dir)
	task := agentTask{Exercise: o.name, Instance: i, Socket: f.socket, Dir: dir, Endpoint: s.cloud.URL(), Now: time.Now(), CreatesMdevs: s.guests.creator() != nil}
	report, isKilled, end := f.run(t, task, moment{death: o.at})
	if !isKilled {
		end(false)
		if report.Err != "" {
			t.Errorf("without a death: %s", report.Err)
		}
		if wrong := o.done(s, report.Instance); wrong != nil {
			t.Error(wrong)
		}
		return f.calls
	}
	task.Recovers, task.Now = true, task.Now.Add(10*time.Minute)
	if o.damage != nil {
		o.damaged(t, f, task)
	}
	isKilled = false
	if o.then.calls > 0 {
		report, isKilled, end = f.run(t, task, moment{death: o.then})
	}
	if o.then.calls == 0 || isKilled {
		task.Now = task.Now.Add(10 * time.Minute)
		report, _, end = f.run(t, task, moment{late: o.late})
	}
	if report.IsDamaged {
		t.Error(report.Err)
		end(false)
		return 0
	}
	hasEnded := false
	again := func() error {
		hasEnded = true
		last := end(true)
		i = last.Instance
		switch {
		case last.Err == "":
			return nil
		case last.Moved != nil:
			return last.Moved
		}
		return errors.New(last.Err)
	}
	if o.odd {
		o.judgedOdd(t, s, report.Named, again)
	} else {
		o.judged(t, s, &i, report.Named, again)
	}
	if !hasEnded {
		end(false)
	}
	return 0
}

// judgedOdd is judged for an operation whose guest keeps its domain.
func (o ordeal) judgedOdd(t *testing.T, s *site, named []spawn.Leftover, again func() error) {
	t.Helper()
	for _, leak := range s.cloud.Leaks() {
		if leak.Kind != simcloud.LeakGuest && !slices.ContainsFunc(named, func(l spawn.Leftover) bool { return isLeft(s.cloud, l, leak) }) {
			t.Errorf("not named: %v", leak)
		}
	}
	if err := again(); err != nil {
		t.Errorf("again: %v", err)
	}
}

// damaged changes the journal file. If the file is damaged by that, damaged checks that a process refuses it, sends
// no request and does not change the file, and restores the file.
func (o ordeal) damaged(t *testing.T, f *fleet, task agentTask) {
	t.Helper()
	path := filepath.Join(task.Dir, "journal")
	whole, err := os.ReadFile(path)
	settled(t, err)
	if !o.damage(t, path, rand.New(rand.NewPCG(uint64(o.at.calls), 9))) {
		return
	}
	before, err := os.ReadFile(path)
	settled(t, err)
	f.site.cloud.ForgetRequests()
	report, _, end := f.run(t, task, moment{})
	end(false)
	if !report.IsDamaged {
		t.Errorf("a damaged file was recovered: %+v", report)
	}
	if n := len(f.site.cloud.Requests()); n > 0 {
		t.Errorf("%d requests in spite of a damaged file", n)
	}
	after, err := os.ReadFile(path)
	settled(t, err)
	if !bytes.Equal(before, after) {
		t.Error("the damaged file was changed")
	}
	settled(t, os.WriteFile(path, whole, 0o600))
}

const (
	diskSector = 512
	metaPages  = 2
)

// torn returns the file after a power failure in the next transaction: an arbitrary part of the sectors of its pages
// is on the disk, and its meta page, which is written after a flush, is not.
func torn(t *testing.T, path string, random *rand.Rand) (isDamaged bool) {
	t.Helper()
	before, err := os.ReadFile(path)
	settled(t, err)
	next := path + " next"
	settled(t, os.WriteFile(next, before, 0o600))
	store, err := journal.Open(next)
	settled(t, err)
	j, err := store.Lock(t.Context(), "another")
	settled(t, err)
	settled(t, j.Append(t.Context(), bytes.Repeat([]byte("record "), random.IntN(3000))))
	j.Release()
	settled(t, store.Close())
	after, err := os.ReadFile(next)
	settled(t, err)
	file := append(bytes.Clone(before), make([]byte, max(0, len(after)-len(before)))...)
	for at := metaPages * pageSizeOf(t, before); at < len(after); at += diskSector {
		if random.IntN(2) == 0 {
			copy(file[at:at+diskSector], after[at:])
		}
	}
	if bytes.Equal(file, before) {
		t.Error("nothing is torn")
	}
	settled(t, os.WriteFile(path, file, 0o600))
	return false
}

// garbage returns the file with a page in use that a broken disk has damaged.
func garbage(t *testing.T, path string, random *rand.Rand) (isDamaged bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	settled(t, err)
	size := pageSizeOf(t, data)
	used := slices.Sorted(maps.Keys(usedPages(t, data)))
	page := data[used[random.IntN(len(used))]*size:]
	for n := range diskSector { // the rest of the page may not be in use
		page[n] = byte(random.Uint32())
	}
	settled(t, os.WriteFile(path, data, 0o600))
	return true
}

func pageSizeOf(t *testing.T, file []byte) int {
	t.Helper()
	newest, err := boltfile.ReadMetas(bytes.NewReader(file))
	settled(t, err)
	return int(newest.PageSize)
}

// readRecorder records the offsets of reads.
type readRecorder struct {
	io.ReaderAt
	offsets []int64
}

// ReadAt implements io.ReaderAt.
func (r *readRecorder) ReadAt(data []byte, offset int64) (int, error) {
	r.offsets = append(r.offsets, offset)
	return r.ReaderAt.ReadAt(data, offset)
}

// usedPages returns the numbers of the pages that a reader of the file reads.
func usedPages(t *testing.T, file []byte) map[int]bool {
	t.Helper()
	newest, err := boltfile.ReadMetas(bytes.NewReader(file))
	settled(t, err)
	recorder := &readRecorder{ReaderAt: bytes.NewReader(file)}
	pages := boltfile.NewPages(recorder, newest.PageSize, newest.End)
	settled(t, pages.Tree(newest.Root, func(e boltfile.Element) error {
		return pages.Bucket(e.Value, func(boltfile.Element) error { return nil })
	}))
	used := map[int]bool{}
	for _, offset := range recorder.offsets {
		used[int(offset/int64(newest.PageSize))] = true
	}
	return used
}

// killWorkers is how many processes are killed in parallel.
const killWorkers = 4

// killPairs is how many recovering processes are killed, too.
const killPairs = 500

// TestDrillSIGKILL kills the process of an agent with a journal file before and after each request and each call of
// the hypervisor of each recorded operation. The next process opens the file, and undoes or finishes the operation.
// Before that ten files are torn as by an interrupted transaction, and ten get a damaged page. In some cases the
// request takes effect after the kill, or the recovering process is killed, too.
func TestDrillSIGKILL(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	var ordeals []ordeal
	for _, e := range killable(nil) {
		calls := 0
		t.Run(e.name+"/without a death", func(t *testing.T) { calls = ordeal{exercise: e}.killed(t) })
		for n := range calls {
			ordeals = append(ordeals, ordeal{exercise: e, at: death{n + 1, true}}, ordeal{exercise: e, at: death{n + 1, false}})
		}
	}
	single := ordeals
	for n := range 20 {
		o := single[n*len(single)/20]
		o.damage = torn
		if n%2 == 1 {
			o.damage = garbage
		}
		ordeals = append(ordeals, o)
	}
	for n, o := range single {
		if o.at.before {
			o.late = []int{1, 3, 6, 9, 12}[n/2%5] // the last ones come while the recovery looks for what may still appear
			ordeals = append(ordeals, o)
		}
	}
	for n := range killPairs {
		random := rand.New(rand.NewPCG(uint64(n), 52))
		o := single[random.IntN(len(single))]
		o.then = death{1 + random.IntN(12), random.IntN(2) == 0}
		ordeals = append(ordeals, o)
	}
	work := make(chan ordeal)
	var workers sync.WaitGroup
	for range killWorkers {
		workers.Go(func() {
			for o := range work {
				t.Run(o.String(), func(t *testing.T) {
					if calls := o.killed(t); calls > 0 {
						t.Errorf("it ended after %d calls", calls)
					}
				})
			}
		})
	}
	for _, o := range ordeals {
		work <- o
	}
	close(work)
	workers.Wait()
	t.Logf("%d processes were killed in %v", len(ordeals), time.Since(begun).Round(time.Second))
}
