package fakecyborg_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/fake"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// The identities of the tests.
const (
	instanceA = "aaaaaaaa-0000-4000-8000-000000000001"
	instanceB = "bbbbbbbb-0000-4000-8000-000000000002"
	unknownID = "99999999-0000-4000-8000-000000000000"
)

// world is a server with a caller in front of it.
type world struct {
	t      *testing.T
	server *fakecyborg.Server
	client *http.Client
	nova   *novaStub
}

// settled ends the test if something that it builds on has failed.
func settled(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// elapse lets time pass in a bubble, and what is due happen.
func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// inProcess is a client of a handler.
func inProcess(h http.Handler) *http.Client { return &http.Client{Transport: simhttp.NewTransport(h)} }

// newServer starts a server that ends with the test.
func newServer(t testing.TB, cfg fakecyborg.Config, opts ...fakecyborg.Option) *fakecyborg.Server {
	t.Helper()
	server, err := fakecyborg.New(cfg, opts...)
	settled(t, err)
	t.Cleanup(server.Close)
	return server
}

// newPlacement is a Placement that knows the host cn0.
func newPlacement(t testing.TB) *placementsim.Server {
	t.Helper()
	placement, err := placementsim.New(placementsim.Config{}, placementsim.WithPrefix("/placement"))
	settled(t, err)
	_, err = placement.CreateProvider(placementsim.ResourceProvider{Name: "cn0"})
	settled(t, err)
	return placement
}

// adminToken is what the services of these tests take for the administrator.
func adminToken(context.Context) (string, error) { return "admin", nil }

// placementOf is the endpoint of a Placement, or of something in its place.
func placementOf(h http.Handler) sim.Endpoint {
	return sim.Endpoint{URL: "http://placement.invalid/placement", Client: inProcess(h), Token: adminToken}
}

func withPlacement(h http.Handler) fakecyborg.Option { return fakecyborg.WithPlacement(placementOf(h)) }

// newWorld starts a server whose one host, cn0, has reported the drivers.
func newWorld(t *testing.T, cfg fakecyborg.Config, drivers []driver.Driver, opts ...fakecyborg.Option) *world {
	t.Helper()
	nova := &novaStub{status: http.StatusOK}
	withNova := fakecyborg.WithNova(sim.Endpoint{URL: "http://nova.invalid/v2.1", Client: inProcess(nova)})
	server := newServer(t, cfg, append([]fakecyborg.Option{withNova}, opts...)...)
	settled(t, server.AddHost(driver.Host{Name: "cn0", Drivers: drivers}))
	settled(t, server.Report(t.Context()))
	return &world{t: t, server: server, client: inProcess(server), nova: nova}
}

// fakeWorld is a world whose host has the fake driver's device.
func fakeWorld(t *testing.T, cfg fakecyborg.Config) *world {
	t.Helper()
	return newWorld(t, cfg, []driver.Driver{fake.New("cn0")})
}

// fakeProvider is the provider of the fake driver's device on cn0.
func fakeProvider() string { return driver.ProviderUUID("cn0_FakeDevice") }

// reply is an answer with its body decoded.
type reply struct {
	status int
	header http.Header
	text   string
}

// message is the error_message of an error body, without the quotes of a text.
func (r reply) message() string {
	var outer struct {
		Message json.RawMessage `json:"error_message"`
	}
	if json.Unmarshal([]byte(r.text), &outer) != nil {
		return r.text
	}
	var text string
	if json.Unmarshal(outer.Message, &text) != nil {
		return string(outer.Message)
	}
	return text
}

// fault is the text of an error body, out of its two wrappings.
func (r reply) fault() string {
	var inner struct {
		Fault       string `json:"faultstring"`
		Description string `json:"description"`
	}
	if json.Unmarshal([]byte(r.message()), &inner) != nil {
		return r.message()
	}
	return inner.Fault + inner.Description
}

func (r reply) object(t *testing.T) map[string]any {
	t.Helper()
	var body map[string]any
	if err := json.Unmarshal([]byte(r.text), &body); err != nil {
		t.Fatalf("status %d, body %q: %v", r.status, r.text, err)
	}
	return body
}

// list is the one list in a body.
func (r reply) list(t *testing.T, name string) []map[string]any {
	t.Helper()
	var body map[string][]map[string]any
	if err := json.Unmarshal([]byte(r.text), &body); err != nil {
		t.Fatalf("status %d, body %q: %v", r.status, r.text, err)
	}
	return body[name]
}

// sent is one request; the zero role is the administrator with Nova's backing.
type sent struct {
	method, path, body string
	token              string // default admin
	plain              bool   // without service token
	version            string // of the API, such as 2.2
	header             map[string]string
}

func (w *world) send(s sent) reply {
	w.t.Helper()
	r, err := w.trySend(s)
	settled(w.t, err)
	return r
}

func (w *world) trySend(s sent) (reply, error) {
	req, err := http.NewRequestWithContext(w.t.Context(), s.method, "http://cyborg.invalid"+s.path, strings.NewReader(s.body))
	if err != nil {
		return reply{}, err
	}
	if s.token == "" {
		s.token = "admin:11111111111111111111111111111111"
	}
	if s.token != "none" {
		req.Header.Set("X-Auth-Token", s.token)
	}
	if !s.plain {
		req.Header.Set("X-Service-Token", "service")
	}
	if s.version != "" {
		req.Header.Set("OpenStack-API-Version", "accelerator "+s.version)
	}
	if s.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	for name, value := range s.header {
		req.Header.Set(name, value)
	}
	res, err := w.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(body)}, err
}

func (w *world) get(path string) reply { w.t.Helper(); return w.send(sent{method: "GET", path: path}) }

func (w *world) delete(path string) reply {
	w.t.Helper()
	return w.send(sent{method: "DELETE", path: path})
}

// want checks a status and, if not empty, the text of the error.
func (w *world) want(r reply, status int, fault string) {
	w.t.Helper()
	if r.status != status || fault != "" && r.fault() != fault {
		w.t.Errorf("got %d %s\nwant %d %s", r.status, cut(r.fault()), status, fault)
	}
}

func cut(s string) string { return s[:min(len(s), 300)] }

// profile creates a device profile; groups is the JSON of its groups.
func (w *world) profile(name, groups string) {
	w.t.Helper()
	r := w.send(sent{method: "POST", path: "/v2/device_profiles", body: fmt.Sprintf(`[{"name":%q,"groups":%s}]`, name, groups)})
	if r.status != http.StatusCreated {
		w.t.Fatalf("create profile %s: %d %s", name, r.status, r.fault())
	}
}

// fakeProfile is a profile for n units of the fake device.
func (w *world) fakeProfile(name string, n int) {
	w.t.Helper()
	w.profile(name, fmt.Sprintf(`[{"resources:FPGA":"%d","trait:CUSTOM_FAKE_DEVICE":"required"}]`, n))
}

// arqs makes the requests of a profile and answers their uuids.
func (w *world) arqs(profile string) []string {
	w.t.Helper()
	r := w.send(sent{method: "POST", path: "/v2/accelerator_requests", body: fmt.Sprintf(`{"device_profile_name":%q}`, profile)})
	if r.status != http.StatusCreated {
		w.t.Fatalf("create ARQs of %s: %d %s", profile, r.status, r.fault())
	}
	var uuids []string
	for _, a := range r.list(w.t, "arqs") {
		uuids = append(uuids, a["uuid"].(string))
	}
	return uuids
}

// binding is the body of one bind of each request.
func binding(instance, provider string, arqs ...string) string {
	parts := make([]string, 0, len(arqs))
	for _, arq := range arqs {
		parts = append(parts, fmt.Sprintf(`%q:[{"path":"/hostname","op":"add","value":"cn0"},`+
			`{"path":"/device_rp_uuid","op":"add","value":%q},{"path":"/instance_uuid","op":"add","value":%q}]`, arq, provider, instance))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (w *world) patch(body string) reply {
	w.t.Helper()
	return w.send(sent{method: "PATCH", path: "/v2/accelerator_requests", body: body})
}

// unbinding is the body of an unbind.
func unbinding(arqs ...string) string {
	parts := make([]string, 0, len(arqs))
	for _, arq := range arqs {
		parts = append(parts, fmt.Sprintf(`%q:[{"path":"/hostname","op":"remove"}]`, arq))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// states are the states of the requests in the order in which they were made.
func (w *world) states() []fakecyborg.State {
	var list []fakecyborg.State
	for _, a := range w.server.ARQs() {
		list = append(list, a.State)
	}
	return list
}

// used counts the handles that are taken.
func (w *world) used() int {
	n := 0
	for _, h := range w.server.AttachHandles() {
		if h.InUse {
			n++
		}
	}
	return n
}

// checkPosts checks how many posts of events Nova got.
func (w *world) checkPosts(n int) {
	w.t.Helper()
	if posts := w.nova.sent(); len(posts) != n {
		w.t.Errorf("%d posts of events, want %d: %v", len(posts), n, posts)
	}
}

// checkFreed checks that no handle is in use, and that no mediated device is there.
func (w *world) checkFreed(card *hardware) {
	w.t.Helper()
	if w.used() != 0 || card.present() != 0 {
		w.t.Errorf("left: %d handles, %d mediated devices", w.used(), card.present())
	}
}

// novaStub records its events and answers as configured.
type novaStub struct {
	mu      sync.Mutex
	status  int
	codes   []int // per event, with status 207
	posts   [][]sim.Event
	headers []http.Header
	onPost  func()
}

func (n *novaStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Events []sim.Event `json:"events"`
	}
	if r.Method != http.MethodPost || r.URL.Path != "/v2.1/os-server-external-events" || json.NewDecoder(r.Body).Decode(&body) != nil {
		http.Error(w, "not an event", http.StatusTeapot)
		return
	}
	n.mu.Lock()
	n.posts = append(n.posts, body.Events)
	n.headers = append(n.headers, r.Header)
	status, codes, onPost := n.status, n.codes, n.onPost
	n.mu.Unlock()
	if onPost != nil {
		onPost()
	}
	type coded struct {
		Code int `json:"code"`
	}
	answer := map[string][]coded{"events": {}}
	for _, code := range codes {
		answer["events"] = append(answer["events"], coded{code})
	}
	simhttp.WriteJSON(w, status, answer)
}

func (n *novaStub) sent() [][]sim.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.posts)
}

// hardware is a driver whose devices a test can change, and which keeps the
// mediated devices that it was asked to make.
type hardware struct {
	mu       sync.Mutex
	name     string
	report   driver.Report
	err      error
	mdevs    map[string]driver.Mdev
	made     int
	failMake error
	refuses  bool // to program, before anything is written
	failDrop error
	during   func()        // runs while a mediated device is being made
	dropping func()        // runs while one is being removed
	writes   chan struct{} // until it is closed, images are being written; nil does not wait
	images   [][]byte
}

func newHardware(name string, devices ...driver.Device) *hardware {
	return &hardware{name: name, report: driver.Report{Devices: devices}, mdevs: make(map[string]driver.Mdev)}
}

func (h *hardware) Name() string { return h.name }

func (h *hardware) Discover(context.Context) (driver.Report, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	report := h.report
	report.Devices = nil
	for _, d := range h.report.Devices {
		report.Devices = append(report.Devices, d.Clone())
	}
	return report, h.err
}

// set replaces what the driver finds.
func (h *hardware) set(devices ...driver.Device) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.report = driver.Report{Devices: devices}
}

func (h *hardware) CreateMdev(_ context.Context, m driver.Mdev) error {
	h.mu.Lock()
	h.made++
	h.mdevs[m.UUID] = m // a failing one may still have been made
	err, during := h.failMake, h.during
	h.mu.Unlock()
	if during != nil {
		during()
	}
	return err
}

func (h *hardware) RemoveMdev(_ context.Context, m driver.Mdev) error {
	h.mu.Lock()
	dropping := h.dropping
	h.mu.Unlock()
	if dropping != nil {
		dropping()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failDrop != nil {
		return h.failDrop
	}
	delete(h.mdevs, m.UUID)
	return nil
}

func (h *hardware) Program(_ context.Context, _ driver.ControlPath, _ string, image []byte) error {
	if h.writes != nil {
		<-h.writes
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if bytes.Contains(image, []byte("bad")) {
		return errors.New("the card refused the image")
	}
	if h.refuses {
		return fmt.Errorf("test: %w", driver.ErrNotWritten)
	}
	h.images = append(h.images, image)
	return nil
}

// fail makes the creation or the removal of mediated devices fail.
func (h *hardware) fail(making, dropping error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failMake, h.failDrop = making, dropping
}

// Mdevs are the mediated devices that are there.
func (h *hardware) Mdevs() []driver.Mdev {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.mdevs))
}

// Reboot removes them, as a restart of the host does.
func (h *hardware) Reboot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.mdevs)
}

var _ driver.Machine = (*hardware)(nil)

func (h *hardware) present() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.mdevs)
}

// pciInfo is the address 0000:BUS:00.FUNCTION.
func pciInfo(bus, function string) driver.Info {
	return driver.Info{"domain": "0000", "bus": bus, "device": "00", "function": function}
}

// gpu is a whole card with one PCI handle per function.
func gpu(bus, class string, traits []string, functions ...string) driver.Device {
	deployable := driver.Deployable{
		Name: "cn0_0000:" + bus + ":00.0", NumAccelerators: len(functions), DriverName: "test",
		Class: class, Traits: traits,
	}
	for _, f := range functions {
		deployable.AttachHandles = append(deployable.AttachHandles, driver.AttachHandle{Type: driver.HandlePCI, Info: pciInfo(bus, f)})
	}
	return driver.Device{
		Vendor: "10de", Model: "a card", Type: driver.TypeGPU,
		ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: pciInfo(bus, "0")},
		Deployables: []driver.Deployable{deployable},
	}
}

// vgpu is a card that makes n mediated devices.
func vgpu(bus string, n int) driver.Device {
	return mdevCard(bus, "nvidia-222", n, "OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_1B")
}
