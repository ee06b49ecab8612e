package spawn_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// yearChecks checks the cloud every hour.
type yearChecks struct {
	*year
	random    *rand.Rand
	since     map[simcloud.Leak]time.Time // when a leak was first seen
	explained int
	provider  *gophercloud.ProviderClient
}

func newYearChecks(y *year) *yearChecks {
	return &yearChecks{year: y, random: y.random(2000), since: map[simcloud.Leak]time.Time{}}
}

// all checks the promises.
func (c *yearChecks) all(t *testing.T, hour int) {
	t.Helper()
	c.counts.checks.Add(1)
	c.leaks()
	if c.provider == nil {
		c.provider = c.cloud.Provider(t)
		c.provider.UserAgent.Prepend(checker)
	}
	c.wire(t.Context())
	c.refusals(t.Context())
	if hour%24 == 0 {
		c.twins(t)
	}
	c.forget()
}

const checker = "hourly-check"

// leaks checks promises 2 and 3: every leak has a cause and soon disappears.
func (c *yearChecks) leaks() {
	leaks := c.cloud.Leaks()
	now := make(map[simcloud.Leak]time.Time, len(leaks))
	owners := c.owners()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, leak := range leaks {
		since, seen := c.since[leak]
		if !seen {
			since = time.Now()
		}
		now[leak] = since
		c.mu.Unlock()
		cause := c.cause(leak, owners[leak.Subject])
		if age := time.Since(since); cause == "" || age > yearPatience {
			c.unexplained("for %s, cause %q: %s", age, cause, leak.Text)
		}
		c.explained++
		c.mu.Lock()
	}
	c.since = now
}

// owner is the owner of a resource.
type owner struct{ instance, host string }

// owners finds the instance and the host of each ARQ and each mediated device.
func (c *yearChecks) owners() map[string]owner {
	of := map[string]owner{}
	for _, a := range c.cloud.Cyborg.ARQs() {
		of[a.UUID] = owner{a.InstanceUUID, a.Hostname}
		if a.AttachHandleUUID != "" {
			of[a.AttachHandleUUID] = of[a.UUID]
		}
	}
	for _, h := range c.cloud.Cyborg.AttachHandles() {
		if of[h.UUID].host == "" {
			of[h.UUID] = owner{host: h.Hostname}
		}
	}
	return of
}

// cause returns the reason for a leak, or "" if it is unknown.
func (c *yearChecks) cause(leak simcloud.Leak, of owner) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := leak.Subject
	if leak.Kind != simcloud.LeakGuest && leak.Kind != simcloud.LeakAllocation {
		id = of.instance
	}
	lately := func(at time.Time) bool { return !at.IsZero() && time.Since(at) < yearPatience }
	i := c.instances[id]
	switch {
	case i != nil && i.busy:
		return "something is being done to the instance"
	case i != nil && lately(i.trouble):
		return "a fault hit what was done to the instance"
	case i != nil && i.Host != "" && lately(c.trouble[c.guests.node(i.Host)]):
		return "its host was down"
	case of.host != "" && lately(c.trouble[of.host]):
		return "the host was down"
	case leak.Kind == simcloud.LeakGuest || id != "":
		return ""
	case lately(c.trouble[""]):
		return "the reply to a request was lost"
	}
	for _, i := range c.instances {
		if i.busy {
			return "something is being done to an instance"
		}
	}
	return ""
}

// wire checks promise 1 and the first half of promise 4.
func (c *yearChecks) wire(ctx context.Context) {
	client, err := cyborgclient.New(c.provider)
	if err != nil {
		c.befell("")
		return
	}
	began := c.counts.spawned.Load()
	read, err := client.ListARQs(ctx, cyborgclient.ListARQsOpts{})
	if err != nil {
		return // a fault rule; the next hour asks again
	}
	kept := map[string]fakecyborg.ARQ{}
	for _, a := range c.cloud.Cyborg.ARQs() {
		kept[a.UUID] = a
	}
	for _, a := range read {
		if k := kept[a.UUID]; string(k.State) != string(a.State) || k.InstanceUUID != a.InstanceUUID ||
			k.State == fakecyborg.StateBound && k.AttachHandleUUID != a.AttachHandleUUID {
			c.unexplained("a client reads ARQ %+v, which is %+v", a, k)
		}
	}
	if len(read) != len(kept) && began == c.counts.spawned.Load() {
		c.unexplained("a client reads %d ARQs of %d", len(read), len(kept))
	}
	for _, path := range []string{
		"/placement/allocation_candidates?resources1=PGPU:1&limit=20", "/accelerator/v2/device_profiles", "/placement/resource_classes",
	} {
		one, two := c.ask(ctx, http.MethodGet, path, ""), c.ask(ctx, http.MethodGet, path, "")
		if one.status == http.StatusOK && two.status == http.StatusOK && !bytes.Equal(one.body, two.body) {
			c.unexplained("GET %s is answered in two ways:\n%s\n%s", path, one.body, two.body)
		}
	}
	for _, u := range c.cloud.Unrecognized() {
		if !strings.Contains(u.LastFrom, checker) {
			c.unexplained("%s: the service does not know %s of %s", u.Operation, u.What, u.LastFrom)
		}
	}
}

type yearAnswer struct {
	status int
	body   []byte
}

// ask sends a request of the checker. The status is 0 if there is no response.
func (c *yearChecks) ask(ctx context.Context, method, path, body string) (a yearAnswer) {
	req, err := http.NewRequestWithContext(ctx, method, c.cloud.URL()+path, strings.NewReader(body))
	if err != nil {
		c.unexplained("%v", err)
		return a
	}
	for name, value := range map[string]string{
		"X-Auth-Token": c.provider.Token(), "Content-Type": "application/json", "OpenStack-API-Version": "placement 1.36", "User-Agent": checker,
	} {
		req.Header.Set(name, value)
	}
	answer, err := c.provider.HTTPClient.Do(req)
	if err != nil {
		return a
	}
	defer answer.Body.Close()
	if a.body, err = io.ReadAll(answer.Body); err == nil {
		a.status = answer.StatusCode
	}
	return a
}

// refusals checks promise 5: bad requests are refused with a text, and change nothing.
func (c *yearChecks) refusals(ctx context.Context) {
	const some = 12
	c.cloud.ForgetRequests()
	id := fmt.Sprintf("%08x-dead-4000-8000-%012x", c.random.Uint32(), c.random.Uint32())
	if guests := c.cloud.Guests(); len(guests) > 0 && c.random.IntN(2) == 0 {
		id = guests[c.random.IntN(len(guests))].UUID
	}
	bad := badRequests(id, c.cloud.ProviderUUID("cn0"))
	for range some {
		b := bad[c.random.IntN(len(bad))]
		body := b.body
		if b.cut && len(body) > 1 {
			body = body[:1+c.random.IntN(len(body)-1)]
		}
		if a := c.ask(ctx, b.method, b.path, body); a.status >= 400 && a.status < 500 && len(a.body) == 0 {
			c.unexplained("%s %s with %q is answered %d without a text", b.method, b.path, body, a.status)
		}
	}
	for _, e := range c.cloud.Requests() {
		switch {
		case !strings.Contains(e.From, checker) || e.Fault != "":
		case e.Status < 400 || e.Status >= 500:
			c.unexplained("%s %s, which is bad, is answered %d", e.Method, e.Path, e.Status)
		case len(e.Changes) > 0:
			c.unexplained("%s %s is refused with %d and changes %v", e.Method, e.Path, e.Status, e.Changes)
		default:
			c.counts.refused.Add(1)
		}
	}
}

type badRequest struct {
	method, path, body string
	cut                bool // somewhere in the body
}

// badRequests are refused for every user. The IDs are of an instance, which may not exist, and of a provider.
func badRequests(id, provider string) []badRequest {
	const arqs, profiles = "/accelerator/v2/accelerator_requests", "/accelerator/v2/device_profiles"
	claim := fmt.Sprintf(`{"allocations": {%q: {"resources": {"VCPU": 100000}}}, "project_id": "p", "user_id": "u", "consumer_generation": null}`, provider)
	return []badRequest{
		{http.MethodPost, arqs, `{"device_profile_name": "gpu"}`, true},
		{http.MethodPost, arqs, `{"device_profile_name": "no-such-profile"}`, false},
		{http.MethodPost, arqs, `{}`, false},
		{http.MethodPatch, arqs, `{"` + id + `": [{"op": "add", "path": "/hostname", "value": "cn0"}]}`, false},
		{http.MethodPatch, arqs, `{"` + id + `": [{"op": "add", "path": "/hostname", "value": "cn0"}]}`, true},
		{http.MethodDelete, arqs + "?arqs=" + id, "", false},
		{http.MethodGet, arqs + "/" + id, "", false},
		{http.MethodPost, profiles, `[{"name": "bad", "groups": [{"resources:PGPU": "none"}]}]`, false},
		{http.MethodPost, profiles, `[{"name": "bad", "groups": [{"resources:PGPU": "1"}]}]`, true},
		{http.MethodPost, profiles, `[{"name": "gpu", "groups": [{"resources:PGPU": "1"}]}]`, false},
		{http.MethodDelete, profiles + "/no-such-profile", "", false},
		{http.MethodPut, "/placement/allocations/" + id, claim, false},
		{http.MethodPut, "/placement/allocations/" + id, claim, true},
		{http.MethodPut, "/placement/resource_providers/" + provider + "/inventories", `{"resource_provider_generation": 0, "inventories": {}}`, false},
		{http.MethodPut, "/placement/resource_providers/" + provider + "/traits", `{"resource_provider_generation": 0, "traits": []}`, false},
		{http.MethodDelete, "/placement/resource_providers/" + provider, "", false},
		{http.MethodGet, "/placement/allocation_candidates?resources=PGPU:none", "", false},
		{http.MethodPost, "/placement/reshaper", `{"inventories": {}}`, false},
	}
}

// yearAside leads away from the instant at which agents report, and work is under way that a load
// ends.
const yearAside = 137 * time.Millisecond

// twins checks the second half of promise 4: two clouds made from the current state behave the same and end in the
// same state.
func (c *yearChecks) twins(t *testing.T) {
	t.Helper()
	time.Sleep(yearAside)
	state, err := c.cloud.Dump()
	if err != nil {
		c.unexplained("%v", err)
		return
	}
	var ends [2]simcloud.State
	var errs [2]error
	var group sync.WaitGroup
	for n := range ends {
		group.Go(func() { ends[n], errs[n] = twin(t.Context(), state) })
	}
	group.Wait()
	if errs[0] != nil || errs[1] != nil {
		c.unexplained("twins: %v, %v", errs[0], errs[1])
		return
	}
	if !bytes.Equal(ends[0], ends[1]) {
		found, err := ends[0].Diff(ends[1])
		c.unexplained("two clouds of one state differ: %v %v", found[:min(len(found), 3)], err)
	}
}

// twin makes a cloud of a state, and instances in it.
func twin(ctx context.Context, from simcloud.State) (end simcloud.State, err error) {
	cloud, err := simcloud.FromState(ctx, from)
	if err != nil {
		return nil, err
	}
	defer cloud.Close()
	if again, err := cloud.Dump(); err != nil {
		return nil, err
	} else if !bytes.Equal(from, again) {
		found, err := from.Diff(again)
		return nil, fmt.Errorf("what was loaded differs from what was dumped: %v %v", found[:min(len(found), 3)], err)
	}
	time.Sleep(yearAside)
	if err := twinSpawns(ctx, cloud); err != nil && len(cloud.Faults().Rules()) == 0 {
		return nil, err
	}
	time.Sleep(time.Hour)
	return cloud.Dump()
}

// twinSpawns makes the instances. The error tells why there is no flow, as in an outage, which a state has, too.
func twinSpawns(ctx context.Context, cloud *simcloud.Cloud) error {
	provider, err := cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return err
	}
	service, err := cloud.ProviderClient(ctx, "nova")
	if err != nil {
		return err
	}
	flow, err := spawn.NewFromProvider(provider, spawn.WithServiceProvider(service), spawn.WithEvents(nil))
	if err != nil {
		return err
	}
	for n, profile := range []string{"gpu", "vgpu", "fpga"} {
		req := request(profile)
		req.Instance = fmt.Sprintf("%s%d", strings.TrimSuffix(instance, "1"), n)
		result, err := flow.Run(ctx, req)
		if err != nil {
			continue // a fault, in both
		}
		if err := cloud.DefineGuest(sim.Guest{UUID: result.Instance, Host: result.Host, Domain: string(result.Domain)}); err != nil {
			return err
		}
	}
	return nil
}

// forget discards data that is no longer needed: the record of requests, the calls of the hypervisor, and instances
// without traces in the cloud.
func (c *yearChecks) forget() {
	c.cloud.ForgetRequests()
	c.guests.forgetCalls()
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, i := range c.instances {
		if !i.living && !i.busy && time.Since(i.trouble) > 2*yearPatience {
			delete(c.instances, id)
		}
	}
}

func (h *hypervisor) forgetCalls() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = nil
}
