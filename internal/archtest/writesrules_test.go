package archtest

import (
	"cmp"
	"go/types"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestRequestsAreSentAfterTheyWereRecorded(t *testing.T) {
	t.Parallel()
	packages, err := loadTyped("../..", Plan().Module, "./cyborgclient/...")
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range writes().Check(packages) {
		t.Error(finding)
	}
}

// smallModule is a module with a client of each service, a ledger and a flow. The text is a second file of the flow, or
// of the ledger.
func smallModule(t *testing.T, flow, inLedger string) []*typed {
	t.Helper()
	const module = "example.org/m/"
	packages := []source{
		{"context", map[string][]byte{"context.go": []byte("package context\ntype Context interface{ Err() error }\nfunc AfterFunc(ctx Context, f func())\nfunc Run(f func(Context) error)\nfunc Wrap(f func(Context) error) func(Context) error\ntype Job struct{ Run func(Context) error }")}},
		{gophercloud, map[string][]byte{"gophercloud.go": []byte(`package gophercloud
import "context"
type ServiceClient struct{}
func (*ServiceClient) Get(ctx context.Context) error
func (*ServiceClient) Put(ctx context.Context) error
func (*ServiceClient) Request(ctx context.Context, method string) error
func Update(ctx context.Context, client *ServiceClient) error
func ListPages(ctx context.Context, client *ServiceClient) error
`)}},
		{module + "cyborg", map[string][]byte{"cyborg/cyborg.go": []byte(`package cyborg
import ("context"; "github.com/gophercloud/gophercloud/v2")
type request struct { op, method string }
type Client struct { service *gophercloud.ServiceClient }
func (c *Client) do(ctx context.Context, r request) error {
	if r.method == "" { r.method = "GET" }
	return c.service.Request(ctx, r.method)
}
func (c *Client) Show(ctx context.Context) error { return c.do(ctx, request{op: "arq.get"}) }
func (c *Client) Delete(ctx context.Context) error { return c.do(ctx, c.deletion()) }
func (c *Client) deletion() request { return request{op: "arq.delete", method: "DELETE"} }
func (c *Client) DeleteAll(ctx context.Context) error { return c.do(ctx, request{op: "arq.delete", method: "DELETE"}) }
func (c *Client) Create(ctx context.Context) error { r := request{op: "arq.create"}; r.method = "POST"; return c.do(ctx, r) }
func IsLost(err error) bool { return err != nil }
`)}},
		{module + "placement", map[string][]byte{"placement/placement.go": []byte(`package placement
import ("context"; "github.com/gophercloud/gophercloud/v2")
type Client struct { service *gophercloud.ServiceClient }
func (c *Client) call(ctx context.Context, send func(context.Context) error) error { return func() error { return send(ctx) }() }
func (c *Client) Read(ctx context.Context) error { return c.call(ctx, c.service.Get) }
func (c *Client) List(ctx context.Context) error { return gophercloud.ListPages(ctx, c.service) }
func (c *Client) Set(ctx context.Context) error {
	return c.call(ctx, func(ctx context.Context) error { return c.service.Put(ctx) })
}
func (c *Client) Update(ctx context.Context) error { return gophercloud.Update(ctx, c.service) }
`)}},
		{module + "flow/ledger", map[string][]byte{"flow/ledger/b.go": []byte(inLedger), "flow/ledger/a.go": []byte(`package ledger
import ("context"; "example.org/m/cyborg")
type State int
const (Sent State = iota; Done; Left)
type Effect struct { ID string; State State }
func (e *Effect) to(s State) { e.State = s }
type Journal struct{}
func (j *Journal) Do(ctx context.Context, e *Effect, send func(context.Context) error) error {
	e.to(Sent)
	err := send(ctx)
	e.to(outcome(err))
	return err
}
func (j *Journal) Remove(ctx context.Context, send func(context.Context) error) { j.Do(ctx, &Effect{ID: "x"}, send) }
func (j *Journal) Change(change func()) { change() }
func outcome(err error) State {
	if cyborg.IsLost(err) { return Left }
	return Done
}
`)}},
		{module + "flow", map[string][]byte{"flow/b.go": []byte(flow), "flow/a.go": []byte(`package flow
import ("context"; "example.org/m/cyborg"; "example.org/m/placement"; "example.org/m/flow/ledger")
type Guests interface {
	Domain(ctx context.Context) error
	Destroy(ctx context.Context) error
}
type Hooks struct {
	Start func(ctx context.Context) error
	Claim func(ctx context.Context) error
	Order func([]int) []int
}
type Flow struct {
	cyborg *cyborg.Client
	placement *placement.Client
	journal *ledger.Journal
	guests Guests
	hooks Hooks
}
func (f *Flow) Remove(ctx context.Context) { f.journal.Remove(ctx, f.cyborg.Delete) }
func (f *Flow) Claim(ctx context.Context) error { return f.journal.Do(ctx, &ledger.Effect{}, f.set) }
func (f *Flow) set(ctx context.Context) error { return f.placement.Set(ctx) }
`)}},
	}
	checked, err := typecheck(packages, strings.TrimSuffix(module, "/"), types.Importer(nil))
	if err != nil {
		t.Fatal(err)
	}
	return checked
}

func smallWrites() Writes {
	return Writes{
		Senders: []string{"cyborg", "placement"}, Writers: []string{"flow/..."}, Hooks: []string{"flow"}, Reads: []string{"Guests.Domain", "Hooks.Claim"},
		Ledger: "flow/ledger", Recorders: []string{"Do", "Remove"}, Transition: "ledger.Effect.to", Outcome: "ledger.outcome",
		Once: []string{"arq.delete", "placement.Client.Set"},
	}
}

func TestWrites(t *testing.T) {
	t.Parallel()
	const called = " is called outside of the functions that Journal.Do, Remove run: "
	tests := []struct {
		name   string
		source string // of flow/b.go
		want   []string
	}{
		{"nothing", ``, nil},
		{"reads", `func (f *Flow) G(ctx context.Context) {
	f.cyborg.Show(ctx); f.placement.Read(ctx); f.placement.List(ctx); f.guests.Domain(ctx); f.hooks.Claim(ctx); f.hooks.Order(nil)
}`, nil},
		{"a literal that a journal runs", `func (f *Flow) G(ctx context.Context) {
	f.journal.Do(ctx, nil, func(ctx context.Context) error { f.hooks.Start(ctx); f.guests.Destroy(ctx); return f.cyborg.Create(ctx) })
}`, nil},
		{"a literal in a variable", `func (f *Flow) G(ctx context.Context) {
	send := func(ctx context.Context) error { return f.cyborg.Create(ctx) }
	f.journal.Do(ctx, nil, send)
}`, nil},
		{"a function that literals call", `func (f *Flow) G(ctx context.Context) {
	f.journal.Do(ctx, nil, func(ctx context.Context) error { return f.a(ctx) })
	f.journal.Do(ctx, nil, f.a)
}
func (f *Flow) a(ctx context.Context) error { return f.b(ctx) }
func (f *Flow) b(ctx context.Context) error { return f.cyborg.Create(ctx) }`, nil},
		{"a function that repeats what it gets, also reads elsewhere", `func (f *Flow) G(ctx context.Context) {
	again(ctx, f.cyborg.Show)
	f.journal.Do(ctx, nil, func(ctx context.Context) error { return again(ctx, func(ctx context.Context) error { return f.cyborg.Create(ctx) }) })
}
func again(ctx context.Context, try func(context.Context) error) error { return once(ctx, try) }
func once(ctx context.Context, try func(context.Context) error) error { return try(ctx) }`, nil},
		{"a function that is given to one that records it", `func (f *Flow) G(ctx context.Context) { f.recorded(ctx, func(ctx context.Context) error { return f.cyborg.Create(ctx) }) }
func (f *Flow) recorded(ctx context.Context, send func(context.Context) error) {
	f.journal.Do(ctx, nil, func(ctx context.Context) error { return send(ctx) })
}`, nil},
		{"a field that recorded functions call", `type work struct { do func(context.Context) error }
func (f *Flow) G(ctx context.Context) { f.run(ctx, work{do: f.hooks.Start}) }
func (f *Flow) run(ctx context.Context, w work) {
	f.journal.Do(ctx, nil, func(ctx context.Context) error { return w.do(ctx) })
}`, nil},

		{"a call", `func (f *Flow) G(ctx context.Context) { f.cyborg.Create(ctx) }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create"}},
		{"a call of another function", `func (f *Flow) G(ctx context.Context) { f.a(ctx) }
func (f *Flow) a(ctx context.Context) { f.guests.Destroy(ctx) }`,
			[]string{"flow/b.go:4: flow.Guests.Destroy" + called + "flow.Flow.G (it is exported) -> flow.Flow.a -> flow.Guests.Destroy"}},
		{"a function that is called both ways", `func (f *Flow) G(ctx context.Context) { f.journal.Do(ctx, nil, f.a); f.a(ctx) }
func (f *Flow) a(ctx context.Context) error { return f.hooks.Start(ctx) }`,
			[]string{"flow/b.go:4: flow.Hooks.Start" + called + "flow.Flow.G (it is exported) -> flow.Flow.a -> flow.Hooks.Start"}},
		{"a literal that is called, too", `func (f *Flow) G(ctx context.Context) {
	send := func(ctx context.Context) error { return f.placement.Update(ctx) }
	f.journal.Do(ctx, nil, send)
	send(ctx)
}`, []string{"flow/b.go:4: placement.Client.Update" + called + "flow.Flow.G (it is exported) -> a function literal of flow.Flow.G -> placement.Client.Update"}},
		{"a literal that another function of the journal runs", `func (f *Flow) G(ctx context.Context) {
	f.journal.Change(func() { f.cyborg.Create(ctx) })
}`, []string{"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> a function literal of flow.Flow.G -> cyborg.Client.Create"}},
		{"an exported function, although a literal calls it", `func (f *Flow) G(ctx context.Context) { f.journal.Do(ctx, nil, f.H) }
func (f *Flow) H(ctx context.Context) error { return f.cyborg.Create(ctx) }`,
			[]string{"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.H (it is exported) -> cyborg.Client.Create"}},
		{"a method value in a field", `type work struct { do func(context.Context) error }
func (f *Flow) G(ctx context.Context) { w := work{f.cyborg.Create}; w.do(ctx) }`,
			[]string{"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create"}},
		{"a method value as an argument", `func (f *Flow) G(ctx context.Context) { again(ctx, f.cyborg.Create) }
func again(ctx context.Context, try func(context.Context) error) error { return try(ctx) }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create"}},
		{"a method value in a list", `func (f *Flow) G(ctx context.Context) {
	for _, do := range []func(context.Context) error{f.cyborg.Show, f.cyborg.Create} { do(ctx) }
}`, []string{"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create"}},
		{"a result", `func (f *Flow) G(ctx context.Context) { f.sender()(ctx) }
func (f *Flow) sender() func(context.Context) error { return f.cyborg.Create }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create"}},
		{"an exported result", `func (f *Flow) G() func(context.Context) { return func(ctx context.Context) { f.cyborg.Create(ctx) } }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> a function literal of flow.Flow.G -> cyborg.Client.Create"}},
		{"a value of any type", `func (f *Flow) G() { f.keep(func(ctx context.Context) { f.cyborg.Create(ctx) }) }
func (f *Flow) keep(any) {}`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> a function literal of flow.Flow.G -> cyborg.Client.Create"}},
		{"a goroutine of a recorded function", `func (f *Flow) G(ctx context.Context) {
	f.journal.Do(ctx, nil, func(ctx context.Context) error { go f.cyborg.Create(ctx); return nil })
}`, []string{"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> a goroutine of flow.Flow.G -> cyborg.Client.Create"}},
		{"a timer of a recorded function", `func (f *Flow) G(ctx context.Context) {
	f.journal.Do(ctx, nil, func(ctx context.Context) error { context.AfterFunc(ctx, func() { f.cyborg.Create(ctx) }); return nil })
}`, []string{"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> a function literal of flow.Flow.G -> cyborg.Client.Create"}},
		{"interfaces of another package's types", `type creator interface { Create(ctx context.Context) error }
type destroyer interface { Destroy(ctx context.Context) error }
func (f *Flow) G(ctx context.Context) { var c creator = f.cyborg; c.Create(ctx) }
func (f *Flow) H(ctx context.Context) { var d destroyer = f.guests; d.Destroy(ctx) }`, []string{
			"flow/b.go:5: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create",
			"flow/b.go:6: flow.Guests.Destroy" + called + "flow.Flow.H (it is exported) -> flow.Guests.Destroy",
		}},
		{"a method value in a variable", `func (f *Flow) G(ctx context.Context) { var do func(context.Context) error = f.cyborg.Create; do(ctx) }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create"}},
		{"a method value in a channel", `func (f *Flow) G(ctx context.Context) {
	c := make(chan func(context.Context) error, 1)
	c <- f.cyborg.Create
	(<-c)(ctx)
}`,
			[]string{"flow/b.go:6: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create"}},
		{"a parameter with another value", `func (f *Flow) G(ctx context.Context) { f.again(ctx, f.cyborg.Show) }
func (f *Flow) again(ctx context.Context, try func(context.Context) error) { try = f.cyborg.Create; try(ctx) }`,
			[]string{"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> flow.Flow.again -> cyborg.Client.Create"}},
		{"a type parameter", `func (f *Flow) G(ctx context.Context) { one(f.cyborg.Create, f.cyborg.Show)(ctx) }
func one[T any](a, b T) T { return a }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create"}},
		{"an iterator", `func (f *Flow) G(ctx context.Context) {
	f.journal.Do(ctx, nil, func(ctx context.Context) error { for range f.all {}; return nil })
	for range f.all {}
}
func (f *Flow) all(yield func() bool) { f.cyborg.Create(nil) }`,
			[]string{"flow/b.go:7: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> flow.Flow.all -> cyborg.Client.Create"}},
		{"a method expression", `func (f *Flow) G(ctx context.Context) { (*Flow).again(f, f.cyborg.Create, ctx) }
func (f *Flow) again(try func(context.Context) error, ctx context.Context) { try(ctx) }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create"}},
		{"a method expression in a variable", `func (f *Flow) G(ctx context.Context) { again := (*Flow).again; again(f, f.cyborg.Create, ctx) }
func (f *Flow) again(try func(context.Context) error, ctx context.Context) { try(ctx) }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create"}},
		{"an argument of another module", `func (f *Flow) G(ctx context.Context) { context.Run(f.cyborg.Create) }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create"}},
		{"a result of another module", `func (f *Flow) G(ctx context.Context) {
	do := context.Wrap(f.cyborg.Create)
	do(ctx)
}`, []string{
			"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create",
			"flow/b.go:5: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create",
		}},
		{"a recorded literal in a field of another module", `func (f *Flow) G(ctx context.Context) {
	send := func(ctx context.Context) error { return f.cyborg.Create(ctx) }
	f.journal.Do(ctx, nil, send)
	_ = context.Job{Run: send}
}`,
			[]string{"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> a function literal of flow.Flow.G -> cyborg.Client.Create"}},
		{"a recorded literal that is returned", `func (f *Flow) G(ctx context.Context) any {
	send := func(ctx context.Context) error { return f.cyborg.Create(ctx) }
	f.journal.Do(ctx, nil, send)
	return any(send)
}`,
			[]string{"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> a function literal of flow.Flow.G -> cyborg.Client.Create"}},
		{"a recorded literal that an exported function returns", `func (f *Flow) G(ctx context.Context) func(context.Context) error {
	send := func(ctx context.Context) error { return f.cyborg.Create(ctx) }
	f.journal.Do(ctx, nil, send)
	return send
}`,
			[]string{"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> a function literal of flow.Flow.G -> cyborg.Client.Create"}},
		{"a recorded literal as an argument of any type", `func (f *Flow) G(ctx context.Context) {
	send := func(ctx context.Context) error { return f.cyborg.Create(ctx) }
	f.journal.Do(ctx, nil, send)
	keep(send)
}
func keep(any) {}`,
			[]string{"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> a function literal of flow.Flow.G -> cyborg.Client.Create"}},
		{"a recorded literal in a variable of any type", `func (f *Flow) G(ctx context.Context) {
	send := func(ctx context.Context) error { return f.cyborg.Create(ctx) }
	f.journal.Do(ctx, nil, send)
	var kept any = send
	_ = kept
}`,
			[]string{"flow/b.go:4: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> a function literal of flow.Flow.G -> cyborg.Client.Create"}},
		{"a method value as an argument of any type", `func (f *Flow) G(ctx context.Context) { keep(f.cyborg.Create) }
func keep(any) {}`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> unknown code that gets a function from flow.Flow.G -> cyborg.Client.Create"}},
		{"an argument of an unknown function", `func (f *Flow) G(ctx context.Context, run func(func(context.Context) error)) { run(f.cyborg.Create) }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> unknown code that gets a function from flow.Flow.G -> cyborg.Client.Create"}},
		{"an element that no name shows", `func (f *Flow) G(ctx context.Context) { f.list()[0] = f.cyborg.Create }
func (f *Flow) list() []func(context.Context) error { return nil }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> unknown code that gets a function from flow.Flow.G -> cyborg.Client.Create"}},
		{"the value of a variable of the package", `var _ = start(nil, nil)
func (f *Flow) G(ctx context.Context) { f.journal.Do(ctx, nil, func(ctx context.Context) error { return start(ctx, f.cyborg) }) }
func start(ctx context.Context, c *cyborg.Client) error { return c.Create(ctx) }`,
			[]string{"flow/b.go:5: cyborg.Client.Create" + called + "flow.init (it is run at the start) -> flow.start -> cyborg.Client.Create"}},
		{"a goroutine of a function that only recorded ones call", `func (f *Flow) G(ctx context.Context) { f.journal.Do(ctx, nil, f.a) }
func (f *Flow) a(ctx context.Context) error { go f.cyborg.Create(ctx); return nil }`,
			[]string{"flow/b.go:4: cyborg.Client.Create" + called + "a goroutine of flow.Flow.a (it runs on its own) -> cyborg.Client.Create"}},
		{"an unexported function that nothing calls", `func (f *Flow) a(ctx context.Context) { f.cyborg.Create(ctx) }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.a (it has no known call) -> cyborg.Client.Create"}},
		{"two calls on a line", `func (f *Flow) G(ctx context.Context) { f.cyborg.Create(ctx); f.cyborg.Create(ctx) }`,
			[]string{"flow/b.go:3: cyborg.Client.Create" + called + "flow.Flow.G (it is exported) -> cyborg.Client.Create"}},
		{"a request with any method", `func G(ctx context.Context, c *gophercloud.ServiceClient, method string) { c.Request(ctx, method) }`,
			[]string{"flow/b.go:3: gophercloud.ServiceClient.Request" + called + "flow.G (it is exported) -> gophercloud.ServiceClient.Request"}},
		{"requests without a client", `func G(ctx context.Context, c *gophercloud.ServiceClient) { c.Get(ctx); c.Put(ctx); c.Request(ctx, "GET"); c.Request(ctx, "POST") }`, []string{
			"flow/b.go:3: gophercloud.ServiceClient.Put" + called + "flow.G (it is exported) -> gophercloud.ServiceClient.Put",
			"flow/b.go:3: gophercloud.ServiceClient.Request" + called + "flow.G (it is exported) -> gophercloud.ServiceClient.Request",
		}},

		{"a second function that deletes", `func (f *Flow) G(ctx context.Context) { f.journal.Do(ctx, nil, f.a) }
func (f *Flow) a(ctx context.Context) error { return f.cyborg.DeleteAll(ctx) }`, []string{
			"flow/a.go:19: flow.Flow.Remove sends arq.delete: one function may, and these do: flow.Flow.Remove, flow.Flow.a",
			"flow/b.go:4: flow.Flow.a sends arq.delete: one function may, and these do: flow.Flow.Remove, flow.Flow.a",
		}},
		{"a second function that writes an allocation", `func (f *Flow) G(ctx context.Context) { f.journal.Do(ctx, nil, f.placement.Set) }`, []string{
			"flow/a.go:21: flow.Flow.set sends placement.Client.Set: one function may, and these do: flow.Flow.G, flow.Flow.set",
			"flow/b.go:3: flow.Flow.G sends placement.Client.Set: one function may, and these do: flow.Flow.G, flow.Flow.set",
		}},

		{"states that are read", `func a(e *ledger.Effect) bool { n := ledger.Effect{ID: "a"}; n.ID = e.ID; return e.State == ledger.Done }`, nil},
		{"states that are set", `func a(e *ledger.Effect) { e.State = ledger.Done }
func b() *ledger.Effect { return &ledger.Effect{State: ledger.Done} }
func c() []ledger.Effect { return []ledger.Effect{{"x", ledger.Done}} }
func d(e *ledger.Effect) *ledger.State { return &e.State }
func g(e *ledger.Effect) { *e = ledger.Effect{} }
func h(e *ledger.Effect) { e.State++ }`, []string{
			"flow/b.go:3: flow.a sets the state of an effect: only ledger.Effect.to may",
			"flow/b.go:4: flow.b sets the state of an effect: only ledger.Effect.to may",
			"flow/b.go:5: flow.c sets the state of an effect: only ledger.Effect.to may",
			"flow/b.go:6: flow.d sets the state of an effect: only ledger.Effect.to may",
			"flow/b.go:7: flow.g sets the state of an effect: only ledger.Effect.to may",
			"flow/b.go:8: flow.h sets the state of an effect: only ledger.Effect.to may",
		}},
		{"states that are made of answers", `func a(err error) (ledger.State, bool) { return ledger.Done, err == nil }
func b() { _ = func(err error) ledger.State { return ledger.Done } }
func c(err error) bool { return cyborg.IsLost(err) }`, []string{
			"flow/b.go:3: flow.a makes a state of an error: only ledger.outcome may",
			"flow/b.go:4: flow.b makes a state of an error: only ledger.outcome may",
			"flow/b.go:5: flow.c asks for IsLost, as ledger.outcome does: only that one may say what has become of a request",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const imports = `package flow; import ("context"; "example.org/m/cyborg"; "example.org/m/flow/ledger"; "github.com/gophercloud/gophercloud/v2")
var _ = []any{context.Context(nil), cyborg.Client{}, ledger.Done, gophercloud.ServiceClient{}}
`
			packages := smallModule(t, imports+tt.source, "package ledger")
			checkTexts(t, smallWrites().Check(packages), tt.want)
		})
	}
}

func TestWritesInTheLedger(t *testing.T) {
	t.Parallel()
	packages := smallModule(t, "package flow", `package ledger
func set(e *Effect) { e.State = Done }
func second(err error) State { return Done }`)
	checkTexts(t, smallWrites().Check(packages), []string{
		"flow/ledger/b.go:2: ledger.set sets the state of an effect: only ledger.Effect.to may",
		"flow/ledger/b.go:3: ledger.second makes a state of an error: only ledger.outcome may",
	})
}

// A rule about a name that the source does not have holds nothing.
func TestWritesOfUnknownNames(t *testing.T) {
	t.Parallel()
	w := smallWrites()
	w.Reads = append(w.Reads, "Guests.Show")
	w.Recorders = append(w.Recorders, "Send", "End")
	w.Transition, w.Outcome = "ledger.Effect.become", "ledger.judge"
	w.Once = append(w.Once, "arq.bind")
	w.Exceptions = []Exception{{"recorded", "flow.Flow.Claim: placement.Client.Set", "a test of exceptions"}}
	var got []string
	for _, f := range w.Check(smallModule(t, "package flow", "package ledger")) {
		if f.Position == "rules" || f.Position == w.Exceptions[0].Subject {
			got = append(got, f.Text)
		}
	}
	want := []string{
		`the exception from rule "recorded" is not needed`,
		"Journal.End with a function to run does not exist", "Journal.Send with a function to run does not exist",
		"a function that sends arq.bind does not exist", "hook Guests.Show does not exist",
		"ledger.Effect.become does not exist", "ledger.judge does not exist",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// checkTexts compares findings with the wanted ones.
func checkTexts(t *testing.T, findings []Finding, want []string) {
	t.Helper()
	var got []string
	for _, f := range findings {
		got = append(got, f.String())
	}
	slices.SortFunc(got, cmp.Compare[string])
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
