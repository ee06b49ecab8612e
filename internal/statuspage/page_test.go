package statuspage_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/statuspage"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/sim"
)

// world is a cloud with lists that are searched one by one.
type world struct {
	trees     [][]placementsim.UsedProvider
	guests    []sim.Guest
	arqs      []fakecyborg.ARQ
	leaks     []statuspage.Leak
	units     map[[2]string]int // in use, by provider and class
	unchecked error             // why there is no check for leaks
	lost      []string          // events
	manual    bool              // the clock
	advanced  time.Duration
	unknown   []statuspage.Unrecognized
	asked     string // of Explain
	problems  map[string][]string
	large     bool // leaks are checked on request
	faults    []fault.State
	requests  []sim.Exchange
	version   atomic.Uint64 // of all sections except the first two
}

func search[T any](q statuspage.Query, list []T, text func(T) string) (found []T, matching int) {
	list = slices.DeleteFunc(slices.Clone(list), func(item T) bool { return !strings.Contains(text(item), q.Text) })
	return list[min(q.Skip, len(list)):min(q.Skip+q.Limit, len(list))], len(list)
}

func (w *world) Now() (time.Time, bool) { return start, w.manual }

func (w *world) Advance(_ context.Context, by time.Duration) error {
	if !w.manual {
		return errors.New("not a manual clock")
	}
	w.advanced += by
	return nil
}

func (w *world) Trees(q statuspage.Query) ([][]placementsim.UsedProvider, int) {
	return search(q, w.trees, func(tree []placementsim.UsedProvider) string { return tree[0].Name + " " + tree[0].UUID })
}

func (w *world) Guests(q statuspage.Query) ([]sim.Guest, int) {
	return search(q, w.guests, func(g sim.Guest) string { return g.UUID + " " + g.Host })
}

func (w *world) GuestsOf(hosts []string) map[string][]string {
	all := make(map[string][]string)
	for _, g := range w.guests {
		if slices.Contains(hosts, g.Host) {
			all[g.Host] = append(all[g.Host], g.UUID)
		}
	}
	return all
}

func (w *world) ARQs(q statuspage.Query) (page fakecyborg.ARQPage) {
	page.ARQs, page.Matching = search(q, w.arqs, func(a fakecyborg.ARQ) string { return a.UUID + " " + a.InstanceUUID + " " + string(a.State) })
	page.States = make(map[fakecyborg.State]int)
	for _, a := range w.arqs {
		page.States[a.State]++
	}
	return page
}

// Requests numbers the requests from 1.
func (w *world) Requests(before uint64, limit int) (list []sim.Exchange, older uint64) {
	list = w.requests[:min(before-1, uint64(len(w.requests)))]
	if cut := len(list) - limit; cut > 0 {
		return list[cut:], uint64(cut + 1)
	}
	return list, 0
}

func (w *world) ProblemsOf([]string) map[string][]string { return w.problems }

func (w *world) LostEvents(limit int) []string { return w.lost[:min(limit, len(w.lost))] }

func (w *world) Faults() []fault.State { return w.faults }

// Operations has more than a list without a search.
func (w *world) Operations() []fault.Operation {
	list := []fault.Operation{
		{Name: fault.ARQBind, Subject: "an ARQ", Actions: []fault.Action{fault.Drop, fault.Status, fault.Delay, fault.Late}},
		{Name: fault.MdevCreate, Subject: "a host", Actions: []fault.Action{fault.Reboot}},
	}
	for _, name := range []sim.OperationName{"placement.a", "placement.*", "placement.b", "placement.c", "placement.d", "placement.e", "placement.f"} {
		list = append(list, fault.Operation{Name: name, Actions: []fault.Action{fault.Drop}})
	}
	return list
}

func (w *world) AddFault(r fault.Rule) error {
	if r.Subject == "refused" {
		return errors.New("fault: bad rule: refused by the cloud")
	}
	w.faults = append(w.faults, fault.State{Rule: r})
	return nil
}

func (w *world) RemoveFault(r fault.Rule) {
	w.faults = slices.DeleteFunc(w.faults, func(s fault.State) bool { return s.Rule == r })
}

func (w *world) Record() iter.Seq2[uint64, sim.Exchange] {
	return func(yield func(uint64, sim.Exchange) bool) {
		for i, r := range w.requests {
			if !yield(uint64(i+1), r) {
				return
			}
		}
	}
}

func (w *world) Flavors() []requestspec.Flavor {
	return []requestspec.Flavor{{Name: "small", VCPUs: 1}, {Name: "accel", VCPUs: 2, ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "gpu"}}}
}

func (w *world) DeviceProfiles() []requestspec.Profile {
	return []requestspec.Profile{
		{Name: "gpu", Groups: []map[string]string{{"resources:PGPU": "1"}}}, {Name: "fpga", Groups: []map[string]string{{"resources:FPGA": "1", "trait:CUSTOM_A": "required"}}},
	}
}

// Explain says of every host that it lacks what is asked for.
func (w *world) Explain(query string, q statuspage.Query) (answer statuspage.Explanation, err error) {
	w.asked = query
	if strings.Contains(query, "bad") {
		return answer, errors.New("bad <query>")
	}
	lines := make([]string, 0, len(w.trees))
	for _, tree := range w.trees {
		lines = append(lines, "host "+tree[0].Name+": no inventory")
	}
	answer.Hosts = len(w.trees)
	answer.Reasons, answer.Matching = search(q, lines, func(line string) string { return line })
	return answer, nil
}

func (w *world) Unrecognized() []statuspage.Unrecognized { return w.unknown }

func (w *world) Leaks(force bool) ([]statuspage.Leak, bool, error) {
	if w.large && !force {
		return nil, false, nil
	}
	return w.leaks, w.unchecked == nil, w.unchecked
}

func (w *world) About() statuspage.About {
	return statuspage.About{Release: "Cyborg <2026.2>", Model: "2 hosts", Since: start.Add(-90 * time.Second)}
}

func (w *world) Totals(text string) (inventories map[string]placementsim.Inventory, used map[string]int) {
	trees, n := w.Trees(statuspage.Query{Text: text, Limit: len(w.trees)})
	return map[string]placementsim.Inventory{"PGPU": {Total: 2 * n, Reserved: 1}}, map[string]int{"PGPU": len(trees)}
}

func (w *world) UnitsInUse([]string) map[[2]string]int { return w.units }

func (w *world) Versions() (v statuspage.Versions) {
	for section := range v {
		if section > 1 {
			v[section] = w.version.Load()
		}
	}
	return v
}

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func node(p placementsim.ResourceProvider, used map[string]int) placementsim.UsedProvider {
	return placementsim.UsedProvider{ResourceProvider: p, Used: used}
}

func small() *world {
	return &world{
		trees: [][]placementsim.UsedProvider{{
			node(placementsim.ResourceProvider{Name: "cn0", UUID: "u0", Inventories: map[string]placementsim.Inventory{"MEMORY_MB": {Total: 4096}}}, map[string]int{"MEMORY_MB": 512}),
			node(placementsim.ResourceProvider{Name: "cn0_<script>alert(1)</script>", UUID: "u1", Parent: "u0", Traits: []string{"CUSTOM_A"},
				Inventories: map[string]placementsim.Inventory{"PGPU": {Reserved: 1, Total: 3}}}, map[string]int{"PGPU": 1}),
		}, {node(placementsim.ResourceProvider{Name: "cn1", UUID: "u2"}, nil)}},
		guests: []sim.Guest{{UUID: "91aa", Host: "cn0"}},
		arqs:   []fakecyborg.ARQ{{UUID: "3f", State: "Bound", DeviceProfileName: "gpu", InstanceUUID: "91aa", Hostname: "cn0"}, {UUID: "40", State: "Deleting"}},
		leaks:  []statuspage.Leak{{Subject: "3f", Text: `ARQ "3f" isn't bound`}},
		faults: []fault.State{{Rule: fault.Rule{Operation: "a.b", Action: fault.Drop}, Hits: 2}},
		requests: []sim.Exchange{
			{Service: "identity", Method: "POST", Path: "/identity/v3/auth/tokens", Status: 201, Started: start, Changes: []sim.Change{{Action: "created", Kind: "token", ID: "<b>"}}},
			{Service: "accelerator", Method: "PATCH", Path: "/accelerator/v2/accelerator_requests", Fault: "drop", Started: start.Add(time.Minute)},
			{From: "cyborg-conductor", Service: "compute", Method: "POST", Path: "/compute/v2.1/os-server-external-events", Status: 200, Started: start.Add(time.Minute)},
		},
	}
}

// large has 250 hosts, each with a guest and a bound request, and 100 requests to services.
func large() *world {
	w := &world{large: true, leaks: slices.Repeat([]statuspage.Leak{{Subject: "x", Text: "a leak"}}, 130)}
	for n := range 250 {
		host, guest := fmt.Sprintf("cn%03d", n), fmt.Sprintf("guest%03d", n)
		w.trees = append(w.trees, []placementsim.UsedProvider{
			node(placementsim.ResourceProvider{Name: host, UUID: fmt.Sprintf("root%03d", n), Inventories: map[string]placementsim.Inventory{"VCPU": {Total: 64}}}, map[string]int{"VCPU": 2}),
			node(placementsim.ResourceProvider{Name: host + "_a", UUID: host + "a", Parent: fmt.Sprintf("root%03d", n), Inventories: map[string]placementsim.Inventory{"PGPU": {Total: 1}}}, map[string]int{"PGPU": 1}),
			node(placementsim.ResourceProvider{Name: host + "_b", UUID: host + "b", Parent: fmt.Sprintf("root%03d", n), Inventories: map[string]placementsim.Inventory{"PGPU": {Total: 1}}}, nil),
		})
		w.guests = append(w.guests, sim.Guest{UUID: guest, Host: host})
		w.arqs = append(w.arqs, fakecyborg.ARQ{UUID: fmt.Sprintf("arq%03d", n), State: "Bound", InstanceUUID: guest, Hostname: host})
	}
	for n := range 100 {
		w.requests = append(w.requests, sim.Exchange{Service: "placement", Method: "GET", Path: fmt.Sprintf("/placement/number%d.", n+1), Status: 200, Started: start})
	}
	return w
}

// serve answers one request of a page.
func serve(t *testing.T, p *statuspage.Page, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	for pattern, handler := range p.Routes() {
		mux.HandleFunc(pattern, handler)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	mux.ServeHTTP(w, r)
	return w
}

// show returns the page, or a part of it.
func show(t *testing.T, w *world, query string) string {
	t.Helper()
	answer := serve(t, statuspage.New(w), "/_sim/"+query)
	if answer.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", query, answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// checkTexts checks that a text has some parts and lacks others.
func checkTexts(t *testing.T, name, text string, wanted, unwanted []string) {
	t.Helper()
	for _, part := range wanted {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q", name, part)
		}
	}
	for _, part := range unwanted {
		if strings.Contains(text, part) {
			t.Errorf("%s has %q", name, part)
		}
	}
}

func TestThePageShowsLostEvents(t *testing.T) {
	t.Parallel()
	w := small()
	checkTexts(t, "the page", show(t, w, ""), nil, []string{"Lost events"})
	for i := range 20 {
		w.lost = append(w.lost, fmt.Sprintf("event <%d>: answered 401", i))
	}
	checkTexts(t, "the page", show(t, w, ""), []string{"Lost events", "<li>event &lt;9&gt;: answered 401</li>"}, []string{"event &lt;10&gt;"})
}

func TestThePageShowsWhichDevicesAreNotOffered(t *testing.T) {
	t.Parallel()
	w := small()
	w.problems = map[string][]string{"cn0": {"device <a>: refused"}, "cn7": {"of another page"}}
	checkTexts(t, "the page", show(t, w, ""), []string{"<li>device &lt;a&gt;: refused</li>"}, []string{"of another page"})
	for i := range 10 {
		w.trees = append(w.trees, []placementsim.UsedProvider{{ResourceProvider: placementsim.ResourceProvider{UUID: fmt.Sprint(i), Name: fmt.Sprint("more", i)}}})
	}
	checkTexts(t, "a long page", show(t, w, ""), []string{"<li>device &lt;a&gt;: refused</li>"}, nil)
}

func TestThePageShowsTheStateInWords(t *testing.T) {
	t.Parallel()
	text := show(t, small(), "")
	checkTexts(t, "the page", text, []string{
		"2026-01-01 12:00:00 UTC", "1 guest <code>91aa</code>", "PGPU 1 of 3 used, 1 reserved", "MEMORY_MB 512 of 4096 used",
		`<meter min="0" max="4096" value="512">`, "Bound: 1", "Deleting: 1", "Initial: 0", "0 guests", `</abbr> &#34;3f&#34; isn&#39;t bound`, "<title>cysim: Cyborg &lt;2026.2&gt;, 2 hosts</title>", "Up 1m30s, since 2026-01-01 11:58:30 UTC.",
		"client to Cyborg: PATCH /accelerator_requests: no answer, fault drop",
		"Cyborg to Nova: POST /os-server-external-events: 200", "<td>2</td>", `<li class="depth1">`,
		"POST /auth/tokens: 201<ul><li>created token &lt;b&gt;</li></ul></li>", "events: 200</li>",
		`<code>91aa</code></td><td>cn0</td><td><a href="?flows=91aa#flows">its requests</a> <a href="?arqs=91aa#arqs">`, "<td>Deleting</td>",
		`<a href="state" download=`, "No unrecognized input.",
	}, []string{"Next", "Older", "Advance", "Failed binds", "0 bound without"})
	for what, n := range map[string]int{`class="used" x="1" y="1" width="12" height="12"/><path`: 2, `class="free"`: 2, `class="reserved"`: 2} { // with the legend
		if got := strings.Count(text, what); got != n {
			t.Errorf("%d times %s, want %d", got, what, n)
		}
	}
	if strings.Index(text, "client to Cyborg") > strings.Index(text, "client to Keystone") {
		t.Error("the newest flow is not the first")
	}
	checkTexts(t, "an empty cloud", show(t, new(world), ""), []string{
		"Nothing leaked.", "There are no hosts.", "There are no instances.", "There are no requests.", "No fault rule is set.",
	}, nil)
}

// A device that a bound accelerator request has is not shown as free, also after its allocation was deleted.
func TestAUnitWithoutAnAllocationIsNotFree(t *testing.T) {
	t.Parallel()
	w := small()
	w.units = map[[2]string]int{{"u1", "PGPU"}: 2}
	text := show(t, w, "?part=hosts")
	checkTexts(t, "the tree", text, []string{"PGPU 1 of 3 used, 1 bound without an allocation, 1 reserved"}, nil)
	for state, n := range map[string]int{"used": 2, "held": 2, "free": 1, "reserved": 2} { // with the legend
		if got := strings.Count(text, `<rect class="`+state+`"`); got != n {
			t.Errorf("%d times %s, want %d", got, state, n)
		}
	}
	many := large()
	many.units = map[[2]string]int{{"cn000a", "PGPU"}: 1, {"cn000b", "PGPU"}: 1}
	checkTexts(t, "the row", show(t, many, "?part=hosts"), []string{"PGPU 1 of 2 used, 1 bound without an allocation; VCPU 2 of 64 used"}, nil)
}

func TestLeaksLinkToWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	w := &world{leaks: []statuspage.Leak{
		{Subject: "3f", Text: "leak <1>", ARQ: "3f"}, {Subject: "91aa", Text: "leak 2", ARQ: "40", Instance: "91aa"}, {Subject: "91ab", Text: "leak 3", Instance: "91ab"}, {Subject: "cn0", Text: "leak 4"},
	}}
	text := show(t, w, "?part=leaks&arqs-page=2")
	checkTexts(t, "the section", text, []string{
		"4 leaks.", "&lt;1&gt;", `<a href="?arqs=3f#arqs">its accelerator requests</a> <a href="?arqs-page=2&amp;flows=3f#flows">`, `<a href="?arqs=40#arqs">`, "flows=91aa#flows", `<a href="?arqs=91ab#arqs">`,
	}, nil)
	if n := strings.Count(text, "its accelerator requests"); n != 3 {
		t.Errorf("%d links, want 3", n)
	}
	w.unchecked = errors.New("no <Nova>")
	checkTexts(t, "without a check", show(t, w, "?part=leaks"), []string{"no &lt;Nova&gt;"}, []string{"Nothing leaked", "leak 2"})
}

// Terms are explained once in a text, abbreviations only in capitals.
func TestTermsAreExplained(t *testing.T) {
	t.Parallel()
	w := &world{leaks: []statuspage.Leak{{Text: "two ARQs of <i>, an ARQ and an accelerator request on provider rp, allocations"}}}
	text := show(t, w, "?part=leaks")
	for part, want := range map[string]int{">ARQs</abbr> of &lt;i&gt;, an ARQ and an accelerator request on provider rp, <abbr": 1, ">allocations</abbr>": 1, "<abbr": 2} {
		if got := strings.Count(text, part); got != want {
			t.Errorf("%d times %s, want %d: %s", got, part, want, text)
		}
	}
	checkTexts(t, "the list of words", show(t, w, ""), []string{"<dt>resource provider, RP</dt><dd>A host, a card", "<dt>mediated device, mdev</dt>"}, nil)
}

func TestNamesAreEscaped(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "?part=hosts"} {
		checkTexts(t, query, show(t, small(), query), []string{"cn0_&lt;script&gt;alert(1)&lt;/script&gt;"}, []string{"<script>alert"})
	}
	checkTexts(t, "a search", show(t, small(), `?hosts="><script>alert(1)&x="><b>`), []string{`value="&#34;&gt;&lt;script&gt;alert(1)"`}, []string{"<script>alert", "<b>"})
}

func TestLongListsAreShownInParts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		query    string
		wanted   []string
		unwanted []string
	}{
		{"?part=hosts", []string{">cn000</a>", ">cn099</a>", "1 to 100 of 250", "250 hosts: PGPU 250 of 500 used, 1 reserved.", "?hosts-page=2#hosts", "PGPU 1 of 2 used; VCPU 2 of 64 used", "<td>1</td>"}, []string{"cn100", "Previous", "<details"}},
		{"?part=hosts&hosts-page=3&arqs=x", []string{"cn200", "cn249", "201 to 250 of 250", "?arqs=x&amp;hosts-page=2#hosts", `name="arqs" value="x"`}, []string{"cn199", "Next"}},
		{"?part=hosts&hosts-page=99", []string{"201 to 250 of 250"}, []string{"cn199", "Next"}},
		{"?part=hosts&hosts-page=-1", []string{"1 to 100 of 250"}, nil},
		{"?part=hosts&hosts=cn1", []string{">cn199</a>", "100 hosts found: PGPU 100 of 200 used, 1 reserved.", `value="cn1"`, "Show all"}, []string{"Next"}},
		{"?part=hosts&hosts=cn11&hosts-page=9", []string{">cn110</a>", ">cn119</a>", "?hosts=root110#hosts"}, []string{"cn120", " of 10"}},
		{"?part=hosts&hosts=root110", []string{"<h3>cn110</h3>", "PGPU 1 of 1 used", "<code>guest110</code>"}, []string{"cn111"}},
		{"?part=hosts&hosts=none", []string{"There are no such hosts."}, nil},
		{"?part=guests&guests-page=2", []string{"guest100", "guest199", "101 to 200 of 250", "?guests-page=3#guests", "?arqs=guest100&amp;guests-page=2#arqs"}, []string{"guest099", "guest200"}},
		{"?part=guests&guests=cn007", []string{"guest007"}, []string{"guest008"}},
		{"?part=arqs&arqs-page=3", []string{"arq200", "arq249", "Bound: 250"}, []string{"arq199"}},
		{"?part=arqs&arqs=guest007", []string{"arq007", "?arqs=Bound#arqs"}, []string{"arq008"}},
		{"?part=flows", []string{"number100.", "number61.", "?before=61#flows", "Older"}, []string{"number60.", "Newest"}},
		{"?part=flows&before=61", []string{"number60.", "number21.", "?before=21#flows", "Newest"}, []string{"number61.", "number20."}},
		{"?part=flows&flows=number1", []string{"number100.", "number10.", "number1.", `value="number1"`, "Show all"}, []string{"number20.", "Older"}},
		{"?part=explain&flavor=small", []string{"0 of 250 hosts are candidates", "host cn099: no inventory", "1 to 100 of 250", "?explain-page=2&amp;flavor=small#explain"}, []string{"host cn100:"}},
		{"?part=explain&flavor=small&explain=cn24", []string{"host cn240:", "host cn249:"}, []string{"host cn239:", "Next"}},
		{"?part=flows&before=21", []string{"number20.", "number1.", "Newest"}, []string{"number21.", "Older"}},
		{"?part=leaks", []string{"on request", "?leaks=check#leaks"}, []string{"<li>"}},
		{"?part=leaks&leaks=check", []string{"130 leaks.", "</abbr></li>", "and 30 more", "Check again"}, nil},
	} {
		text := show(t, large(), tt.query)
		checkTexts(t, tt.query, text, tt.wanted, tt.unwanted)
	}
	if links := regexp.MustCompile("leaks=check").FindAllString(show(t, large(), "?leaks=check"), -1); len(links) != 1 {
		t.Errorf("other links than the link of the leaks check again: %d", len(links))
	}
}

func TestASectionIsSentOnlyIfItChanged(t *testing.T) {
	t.Parallel()
	w := large()
	p := statuspage.New(w)
	text := serve(t, p, "/_sim/").Body.String()
	shown := make(map[string]string)
	for _, found := range regexp.MustCompile(`data-section="(\w+)" data-etag="([^>]*)">`).FindAllStringSubmatch(text, -1) {
		shown[found[1]] = strings.ReplaceAll(found[2], "&#34;", `"`)
	}
	if diff := cmp.Diff([]string{"arqs", "explain", "faults", "flows", "guests", "hosts", "leaks", "now", "operations", "unrecognized"}, slices.Sorted(maps.Keys(shown))); diff != "" {
		t.Errorf("sections (-want +got):\n%s", diff)
	}
	for section, tag := range shown {
		if answer := serve(t, p, "/_sim/?part="+section, "If-None-Match", tag); answer.Code != http.StatusNotModified || answer.Body.Len() > 0 {
			t.Errorf("%s: %d, %d bytes", section, answer.Code, answer.Body.Len())
		}
	}
	w.guests[200].Host = "cn000" // a guest is not on the first page of guests, its hosts are
	for section, want := range map[string]int{"hosts": http.StatusOK, "guests": http.StatusNotModified} {
		if answer := serve(t, p, "/_sim/?part="+section, "If-None-Match", shown[section]); answer.Code != want {
			t.Errorf("after a change, %s: %d, want %d", section, answer.Code, want)
		} else if tag := answer.Header().Get("ETag"); (tag == shown[section]) != (want == http.StatusNotModified) {
			t.Errorf("after a change, %s: ETag %s", section, tag)
		}
	}
	packed := serve(t, p, "/_sim/", "Accept-Encoding", "br, gzip")
	unpacked, err := gzip.NewReader(packed.Body)
	if err != nil || packed.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("compressed: %v", err)
	}
	if got, err := io.ReadAll(unpacked); err != nil || string(got) != serve(t, p, "/_sim/").Body.String() {
		t.Errorf("compressed: %d bytes, %v", len(got), err)
	}
	if answer := serve(t, p, "/_sim/?part=content"); answer.Code != http.StatusNotFound {
		t.Errorf("an unknown part: %d", answer.Code)
	}
}

func TestThePageLoadsNothingFromOtherSites(t *testing.T) {
	t.Parallel()
	p := statuspage.New(small())
	for _, path := range []string{"/_sim/", "/_sim/?part=hosts", "/_sim/page.css", "/_sim/page.js", "/_sim/favicon.svg"} {
		w := serve(t, p, path)
		if w.Code != 200 || w.Body.Len() == 0 {
			t.Errorf("%s: %d", path, w.Code)
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		text := strings.Replace(w.Body.String(), `xmlns="http://www.w3.org/2000/svg"`, "", 1) // the name of a format
		if strings.Contains(text, "http://") || strings.Contains(text, "https://") {
			t.Errorf("%s names another place", path)
		}
	}
	if w := serve(t, p, "/_sim/page.html.tmpl"); w.Code != http.StatusNotFound {
		t.Errorf("a file that is no route: %d", w.Code)
	}
}

// follow opens the stream; the channel has the sections of each event.
func follow(ctx context.Context, t *testing.T, p *statuspage.Page) (events <-chan string, status *atomic.Int32) {
	t.Helper()
	read, write := io.Pipe()
	found, status := make(chan string, 100), new(atomic.Int32)
	go func() {
		defer write.Close()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/_sim/stream", nil)
		p.Routes()["GET /_sim/stream"](&streamed{Writer: write, header: make(http.Header), status: status}, r)
	}()
	go func() {
		defer close(found)
		for lines := bufio.NewScanner(read); lines.Scan(); {
			if sections, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				found <- sections
			}
		}
	}()
	return found, status
}

type streamed struct {
	io.Writer
	header http.Header
	status *atomic.Int32
}

// Header implements http.ResponseWriter.
func (s *streamed) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *streamed) WriteHeader(status int) { s.status.Store(int32(status)) }

// Flush implements http.Flusher.
func (s *streamed) Flush() {}

func TestTheStreamReportsChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, done := small(), make(chan struct{})
		p := statuspage.New(w)
		p.Done = done
		events, _ := follow(t.Context(), t, p)
		got := []int{}
		for _, change := range []uint64{0, 0, 3, 0, 1} { // in the last period
			w.version.Add(change)
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			got = append(got, len(events))
		}
		if diff := cmp.Diff([]int{1, 1, 2, 2, 3}, got); diff != "" {
			t.Errorf("events after each half second (-want +got):\n%s", diff)
		}
		close(done)
		synctest.Wait()
		for _, want := range []string{"now leaks hosts guests arqs flows explain faults operations unrecognized", "hosts guests arqs flows explain faults operations unrecognized", "hosts guests arqs flows explain faults operations unrecognized"} {
			if got := <-events; got != want {
				t.Errorf("changed: %s, want %s", got, want)
			}
		}
		if _, open := <-events; open {
			t.Error("the stream continues after the server has ended")
		}
	})
}

func TestStreamsAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := statuspage.New(small())
		ctx, cancel := context.WithCancel(t.Context())
		for range 16 {
			follow(ctx, t, p)
		}
		synctest.Wait()
		_, status := follow(ctx, t, p)
		synctest.Wait()
		if status.Load() != http.StatusServiceUnavailable {
			t.Errorf("one more: %d", status.Load())
		}
		time.Sleep(11 * time.Minute) // no connection lasts so long
		events, status := follow(ctx, t, p)
		synctest.Wait()
		if status.Load() != 0 {
			t.Errorf("after their lifetime: %d", status.Load())
		}
		cancel()
		synctest.Wait()
		if first := <-events; first == "" {
			t.Error("no event at the beginning")
		}
		if _, open := <-events; open {
			t.Error("an event of a version that never changed")
		}
	})
}
