package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// bindTime is how long, in virtual time, the binds of a filled cloud may take: longer than Cyborg's
// own limits.
const bindTime = 15 * time.Minute

// fill attaches every free device of every host to new instances, through Placement and Cyborg,
// and releases them. It returns the number of devices of each deployable that could be in use,
// including the guests' devices, and why it could not use more.
func fill(ctx context.Context, cloud *simcloud.Cloud) (used map[string]int, problems map[string]error) {
	used, problems = make(map[string]int), make(map[string]error)
	free := make(map[string]int)
	for _, h := range cloud.Cyborg.AttachHandles() {
		if h.InUse {
			used[h.DeployableUUID]++
		} else {
			free[h.DeployableUUID]++
		}
	}
	token := ""
	if provider, err := cloud.ProviderClient(ctx, "admin"); err == nil {
		token = provider.Token()
	}
	var all []*filler
	for n, d := range cloud.Cyborg.Deployables() {
		if free[d.UUID] == 0 {
			continue
		}
		f := &filler{cloud: cloud, token: token, of: d, n: free[d.UUID], instance: fmt.Sprintf("d4111000-0000-4000-8000-%012x", n)}
		f.err = f.take(ctx)
		all = append(all, f)
	}
	if len(all) > 0 {
		time.Sleep(bindTime) // virtual
	}
	for _, f := range all {
		f.createMdevs(ctx)
	}
	for _, f := range all {
		bound, err := f.giveBack(ctx)
		used[f.of.UUID] += bound
		if err != nil {
			problems[f.of.UUID] = fmt.Errorf("%s of host %s cannot be filled: %w", f.of.Name, f.of.Hostname, err)
		}
	}
	return used, problems
}

// filler is an instance with all that is free of a deployable.
type filler struct {
	cloud    *simcloud.Cloud
	token    string
	of       fakecyborg.StoredDeployable
	n        int
	instance string
	err      error
	unusable int // bound requests whose mediated device cannot be created
}

func (f *filler) profile() string { return "drill-" + f.instance }

func (f *filler) take(ctx context.Context) error {
	class := f.of.ResourceClass()
	if err := f.cloud.DefineGuest(sim.Guest{UUID: f.instance, Host: f.of.Hostname}); err != nil {
		return err
	}
	project := f.cloud.ProjectID("admin")
	claim := fmt.Sprintf(`{"allocations": {%q: {"resources": {%q: %d}}}, "project_id": %q, "user_id": %q, "consumer_generation": null}`,
		f.of.ProviderUUID, class, f.n, project, project)
	if err := f.claim(ctx, claim); err != nil {
		return err
	}
	groups := []map[string]string{{"resources:" + class: fmt.Sprint(f.n)}}
	if _, err := f.cloud.Cyborg.CreateDeviceProfile(f.profile(), groups); err != nil {
		return err
	}
	arqs, err := f.cloud.Cyborg.CreateARQs(f.profile(), project)
	if err != nil {
		return err
	}
	bindings := make([]fakecyborg.Binding, 0, len(arqs))
	for _, a := range arqs {
		bindings = append(bindings, fakecyborg.Binding{ARQ: a.UUID, Host: f.of.Hostname, Provider: f.of.ProviderUUID, Instance: f.instance})
	}
	return f.cloud.Cyborg.Bind(ctx, bindings...)
}

// claim replaces what the instance has allocated.
func (f *filler) claim(ctx context.Context, body string) error {
	if f.token == "" {
		return errors.New("the drill cannot log in")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, f.cloud.URL()+"/placement/allocations/"+f.instance, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-Auth-Token", f.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("OpenStack-API-Version", "placement 1.36")
	answer, err := f.cloud.Transport().RoundTrip(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusNoContent {
		return nil
	}
	text, err := io.ReadAll(answer.Body)
	return errors.Join(fmt.Errorf("PUT allocations: %s: %s", answer.Status, text), err)
}

// createMdevs creates the mediated devices of the bound requests, as nova-compute does where Cyborg's agent does not: an old device
// in their place keeps them out. The agent removes them when the requests are deleted.
func (f *filler) createMdevs(ctx context.Context) {
	if f.err != nil || f.cloud.Model().Cyborg.MdevCreation != fakecyborg.MdevsByNova {
		return
	}
	for _, a := range f.cloud.Cyborg.ARQs() {
		m, mediated := a.Mdev()
		if a.DeviceProfileName != f.profile() || !mediated {
			continue
		}
		if err := f.cloud.CreateMdev(ctx, a.Hostname, m); err != nil {
			f.err = fmt.Errorf("a request is Bound to a mediated device that cannot be created: %w", err)
			f.unusable++
		}
	}
}

// giveBack ends the instance and returns how many of its requests were bound.
func (f *filler) giveBack(ctx context.Context) (bound int, err error) {
	err = f.err
	var arqs []string
	for _, a := range f.cloud.Cyborg.ARQs() {
		if a.DeviceProfileName != f.profile() {
			continue
		}
		arqs = append(arqs, a.UUID)
		if a.State == fakecyborg.StateBound {
			bound++
		} else if err == nil {
			err = fmt.Errorf("a request ends %s", a.State)
		}
	}
	ends := []func() error{
		func() error { return f.cloud.Cyborg.DeleteARQs(ctx, arqs...) },
		func() error { return f.cloud.Cyborg.DeleteDeviceProfile(f.profile()) },
		func() error { return f.cloud.Placement.Release(f.instance) },
	}
	for _, end := range ends {
		if failure := end(); err == nil {
			err = failure
		}
	}
	f.cloud.RemoveGuest(f.instance)
	return bound - f.unusable, err
}

// checkEnd checks the liveness of a run: the flow ended in time, and every device can be attached
// as after the undisturbed flow.
func (d *drill) checkEnd(ctx context.Context, cloud *simcloud.Cloud, o *outcome) (problems []string) {
	if d.Within == 0 {
		return nil
	}
	used, broken := fill(ctx, cloud)
	o.filled = make(map[string]int, len(used))
	for _, part := range cloud.Cyborg.Deployables() {
		o.filled[part.Name] = used[part.UUID]
		if want := d.filled[part.Name]; used[part.UUID] < want {
			problems = append(problems, fmt.Sprintf("%d devices of %s can be in use, want %d: %v", used[part.UUID], part.Name, want, broken[part.UUID]))
		}
	}
	for name, want := range d.filled {
		if _, found := o.filled[name]; !found && want > 0 {
			problems = append(problems, fmt.Sprintf("deployable %s no longer exists, want %d usable devices", name, want))
		}
	}
	if d.want == nil {
		return append(problems, checkFilled(o.filled, broken)...)
	}
	limit := d.took + d.Within
	for _, rule := range o.rules {
		limit += time.Duration(max(rule.Times, 1)) * rule.Delay
	}
	if o.took > limit {
		problems = append(problems, fmt.Sprintf("the flow took %s, %s without faults; want at most %s", o.took, d.took, limit))
	}
	o.stuck = len(problems) > 0
	return problems
}

// checkFilled returns why no device can be in use after the undisturbed flow. In that case every
// other run would pass.
func checkFilled(filled map[string]int, broken map[string]error) (problems []string) {
	for _, n := range filled {
		if n > 0 {
			return nil
		}
	}
	for _, part := range slices.Sorted(maps.Keys(broken)) {
		problems = append(problems, fmt.Sprintf("no device can be in use, so that the check of liveness proves nothing: %v", broken[part]))
	}
	return problems
}
