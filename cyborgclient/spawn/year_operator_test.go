package spawn_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// yearOperator is the operator of the cloud, who causes faults.
type yearOperator struct {
	*year

	setting  sync.Mutex
	settings int                     // how often the rules were set
	extra    map[string][]fault.Rule // beside the rare faults, by what they are for
}

func newYearOperator(y *year) *yearOperator {
	o := &yearOperator{year: y, extra: map[string][]fault.Rule{}}
	o.set("", nil)
	return o
}

// set replaces the rules of one purpose. The counts of all begin again, so their probability
// changes a little, and with it which requests they hit.
func (o *yearOperator) set(purpose string, rules []fault.Rule) {
	o.setting.Lock()
	defer o.setting.Unlock()
	o.extra[purpose] = rules
	o.settings++
	var all []fault.Rule
	for _, purpose := range slices.Sorted(maps.Keys(o.extra)) {
		all = append(all, o.extra[purpose]...)
	}
	all = append(all, rareFaults(0.004+1e-9*float64(o.settings))...)
	if err := o.cloud.Faults().Set(all...); err != nil {
		o.unexplained("fault rules: %v", err)
	}
}

// rareFaults strike about one spawn in twenty. What is late ends at no instant at which a client, whose pauses are whole
// milliseconds, looks: what comes first at one instant is open, and two clouds of one state may differ then.
func rareFaults(rare float64) []fault.Rule {
	late := func(operation sim.OperationName, delay time.Duration) fault.Rule {
		return fault.Rule{Operation: operation, Action: fault.Late, Delay: delay, Probability: rare}
	}
	return []fault.Rule{
		late(fault.ARQCreate, 5*time.Second+3*time.Microsecond), late(fault.ARQCreate, 7*time.Minute+5*time.Microsecond),
		late(fault.ARQBind, 20*time.Millisecond+7*time.Microsecond), late(fault.ARQBind, 7*time.Minute+11*time.Microsecond),
		late(fault.ARQDelete, 7*time.Minute+13*time.Microsecond), late(fault.AllocationsPut, 5*time.Second+17*time.Microsecond),
		late(fault.AllocationsPut, 7*time.Minute+19*time.Microsecond),
		{Operation: fault.ARQCreate, Action: fault.Drop, When: fault.After, Probability: rare},
		{Operation: fault.ARQBind, Action: fault.Proxy, Status: http.StatusGatewayTimeout, When: fault.After, Probability: rare},
		{Operation: fault.ARQBind, Action: fault.ExpireToken, Probability: rare},
		{Operation: fault.ARQBind, Action: fault.ExpireServiceToken, Probability: rare},
		{Operation: fault.ARQDelete, Action: fault.Proxy, Status: http.StatusServiceUnavailable, Probability: rare},
		{Operation: fault.AllocationsPut, Action: fault.Drop, When: fault.After, Probability: rare},
		{Operation: fault.AllocationCandidatesList, Action: fault.Status, Status: http.StatusServiceUnavailable, Probability: rare},
		{Operation: fault.MdevCreate, Action: fault.Status, Probability: rare},
		{Operation: fault.EventSend, Action: fault.Drop, Probability: 10 * rare},
		{Operation: fault.ExternalEventForward, Action: fault.Drop, Probability: 10 * rare},
	}
}

// work causes the events of each day, at random times.
func (o *yearOperator) work(ctx context.Context) {
	var group sync.WaitGroup
	for n, kind := range []struct {
		perDay int
		do     func(context.Context, *rand.Rand)
	}{
		{3, o.crash}, {2, o.crashOfCyborg}, {1, o.reboot}, {1, o.loseDevice}, {1, o.restart}, {2, o.changeProfiles},
	} {
		random := o.random(1000 + uint64(n))
		group.Go(func() {
			share := 24 * time.Hour / time.Duration(kind.perDay)
			for from := o.started; !o.over.Load(); from = from.Add(share) {
				at := from.Add(time.Duration(random.Int64N(int64(share))))
				if !o.sleepUntil(at) {
					return
				}
				kind.do(ctx, random)
			}
		})
	}
	group.Wait()
}

// sleepUntil reports whether the time came before the end.
func (o *yearOperator) sleepUntil(at time.Time) bool {
	for time.Until(at) > time.Hour {
		time.Sleep(time.Hour)
		if o.over.Load() {
			return false
		}
	}
	time.Sleep(time.Until(at))
	return !o.over.Load()
}

// crash kills the process of an agent before or after one of its next requests.
func (o *yearOperator) crash(_ context.Context, random *rand.Rand) {
	a := o.agents[random.IntN(len(o.agents))]
	if line := a.line; line != nil {
		line.before.Store(random.IntN(2) == 0)
		line.left.Store(1 + random.Int64N(12))
	}
	o.befell("")
}

// up chooses a host that runs.
func (o *yearOperator) up(random *rand.Rand) string {
	hosts := o.cloud.HostNames()
	for {
		if host := hosts[random.IntN(len(hosts))]; !o.guests.isDown(host) && !o.hasTrouble(host) {
			return host
		}
	}
}

// crashOfCyborg stops Cyborg's agent on a host for a while.
func (o *yearOperator) crashOfCyborg(ctx context.Context, random *rand.Rand) {
	host := o.up(random)
	o.befell(host)
	if err := o.cloud.Cyborg.StopAgent(host); err != nil {
		o.unexplained("stop the agent of %s: %v", host, err)
	}
	time.Sleep(3*time.Minute + time.Duration(random.Int64N(int64(40*time.Minute))))
	o.startAgent(ctx, host, o.cloud.Cyborg.StartAgent)
}

// startAgent starts an agent, and repeats this if its report failed because a service is down.
func (o *yearOperator) startAgent(ctx context.Context, host string, start func(context.Context, string) error) {
	err := start(ctx, host)
	for try := 0; err != nil && try < 60; try++ {
		time.Sleep(time.Minute + 7*time.Millisecond)
		err = o.cloud.Cyborg.ReportHost(ctx, host)
	}
	if err != nil {
		o.unexplained("the agent of %s does not start: %v", host, err)
	}
	o.befell(host)
}

// reboot stops a host for some minutes, or for long enough that its instances are evacuated.
func (o *yearOperator) reboot(ctx context.Context, random *rand.Rand) {
	host := o.up(random)
	o.befell(host)
	if err := o.guests.goDown(host); err != nil {
		o.unexplained("stop host %s: %v", host, err)
	}
	time.Sleep(3*time.Minute + time.Duration(random.Int64N(int64(50*time.Minute))))
	o.startAgent(ctx, host, o.cloud.StartHost)
	o.guests.comeUp(host)
	o.befell(host)
}

// goDown is a power cut after which a host does not answer.
func (h *hypervisor) goDown(host string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down[host] = true
	return h.powerCut(host)
}

// comeUp starts a host and removes the instances that were evacuated from it, as nova-compute does.
func (h *hypervisor) comeUp(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.down, host)
	maps.DeleteFunc(h.saved, func(guest place, _ string) bool { return guest.host == host && h.home[guest.instance] != host })
}

// loseDevice removes a device for some hours.
func (o *yearOperator) loseDevice(ctx context.Context, random *rand.Rand) {
	host := o.up(random)
	var devices []string
	for _, d := range o.cloud.Cyborg.Deployables() {
		if d.Hostname == host {
			devices = append(devices, d.Name)
		}
	}
	device := devices[random.IntN(len(devices))]
	o.set("lost", []fault.Rule{{Operation: fault.DeviceFind, Subject: device, Action: fault.Drop, Times: -1}})
	time.Sleep(time.Hour + time.Duration(random.Int64N(int64(5*time.Hour))))
	o.set("lost", nil)
	time.Sleep(2*time.Hour + time.Duration(random.Int64N(int64(time.Second))))
	if o.over.Load() {
		return // the agents no longer report
	}
	if !slices.ContainsFunc(o.cloud.Cyborg.Deployables(), func(d fakecyborg.StoredDeployable) bool { return d.Name == device }) {
		o.unexplained("device %s is back, and Cyborg does not have it", device)
	}
}

// restart kills a service and starts it again some minutes later, from the state file as it was at the kill.
func (o *yearOperator) restart(_ context.Context, random *rand.Rand) {
	service, action := "accelerator", fault.Rule{Action: fault.Drop}
	if random.IntN(2) == 0 {
		service = "placement"
	}
	if random.IntN(2) == 0 {
		action = fault.Rule{Action: fault.Proxy, Status: http.StatusServiceUnavailable}
	}
	var outage []fault.Rule
	for _, operation := range o.cloud.Faults().Describe() {
		isRequest := slices.Contains(operation.Actions, fault.Malformed)
		if strings.HasPrefix(string(operation.Name), service+".") && (isRequest || operation.Name == fault.AgentReport) {
			rule := action
			if !isRequest {
				rule = fault.Rule{Action: fault.Status}
			}
			rule.Operation, rule.Times = operation.Name, -1
			outage = append(outage, rule)
		}
	}
	o.set("outage", outage)
	o.befell("")
	time.Sleep(time.Millisecond) // what is under way ends, or waits in a fault
	if err := o.reload(service); err != nil {
		o.unexplained("%s does not start from its file: %v", service, err)
	}
	time.Sleep(time.Minute + time.Duration(random.Int64N(int64(10*time.Minute))))
	if service == "accelerator" {
		o.cloud.Cyborg.Resume()
	}
	o.set("outage", nil)
	o.befell("")
}

// reload loads the records of a copy of the state file into a service.
func (o *yearOperator) reload(service string) error {
	if err := o.cloud.Save(); err != nil {
		return err
	}
	file, err := os.ReadFile(o.stateAt)
	if err != nil {
		return err
	}
	killed := o.stateAt + ".killed"
	if err := os.WriteFile(killed, file, 0o600); err != nil {
		return err
	}
	state, err := simcloud.ReadStateFile(killed)
	if err != nil {
		return err
	}
	var records []sim.Record
	for line := range bytes.Lines(state) {
		var r sim.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		if strings.HasPrefix(r.Table, service+".") {
			records = append(records, r)
		}
	}
	var to sim.Recorded = o.cloud.Cyborg
	if service == "placement" {
		to = o.cloud.Placement
	}
	if err := sameRecords(to, records); err != nil {
		return err
	}
	return sim.Replace(context.Background(), to, records)
}

// sameRecords reports the first record that is missing in a file or only there.
func sameRecords(of sim.Recorded, inFile []sim.Record) error {
	kept := make(map[[2]string]string, len(inFile))
	for _, r := range inFile {
		kept[[2]string{r.Table, r.Key}] = string(r.Row)
	}
	for r, err := range of.Records() {
		if err != nil {
			return err
		}
		key := [2]string{r.Table, r.Key}
		isCounter := strings.HasSuffix(r.Table, ".sequences") // written with the next row
		if kept[key] != string(r.Row) && !isCounter {
			return fmt.Errorf("%s %s is %s in the file, but %s in memory", r.Table, r.Key, kept[key], r.Row)
		}
		delete(kept, key)
	}
	for key := range kept {
		return fmt.Errorf("%v is in the file only", key)
	}
	return nil
}

// changeProfiles creates a device profile for new instances, or stops using one and deletes it after its last
// instance.
func (o *yearOperator) changeProfiles(ctx context.Context, random *rand.Rand) {
	client, err := o.client(ctx)
	if err != nil {
		o.befell("")
		return // a service is down: the next time
	}
	name := fmt.Sprintf("gpu-%d", random.IntN(5))
	o.mu.Lock()
	inUse := slices.Contains(o.profiles, name)
	o.profiles = slices.DeleteFunc(o.profiles, func(p string) bool { return p == name })
	o.mu.Unlock()
	if inUse {
		time.Sleep(7 * time.Hour) // its instances have gone
		_ = client.DeleteDeviceProfile(ctx, name)
		return
	}
	opts := cyborgclient.CreateDeviceProfileOpts{Name: name, Groups: []map[string]string{{"resources:PGPU": "1"}}}
	_, err = client.CreateDeviceProfile(ctx, opts)
	if _, there := client.GetDeviceProfileByName(ctx, name); err == nil || there == nil {
		o.mu.Lock()
		o.profiles = append(o.profiles, name)
		o.mu.Unlock()
	}
}

// client returns an operator's client.
func (o *yearOperator) client(ctx context.Context) (*cyborgclient.Client, error) {
	provider, err := o.cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, err
	}
	return cyborgclient.New(provider)
}

// reports makes Cyborg's agents report every hour, one after the other.
func (o *yearOperator) reports(ctx context.Context) {
	hosts := o.cloud.HostNames()
	pause := time.Hour / time.Duration(len(hosts))
	for n := 0; !o.over.Load(); n++ {
		time.Sleep(time.Until(o.started.Add(time.Duration(n)*pause + 2*time.Millisecond)))
		if err := o.cloud.Cyborg.ReportHost(ctx, hosts[n%len(hosts)]); err != nil {
			o.befell(hosts[n%len(hosts)])
		}
	}
}

// settle ends the faults.
func (o *yearOperator) settle(ctx context.Context) {
	o.setting.Lock()
	defer o.setting.Unlock()
	o.cloud.Faults().Clear()
	for _, host := range o.cloud.HostNames() {
		if o.guests.isDown(host) {
			if err := o.cloud.StartHost(ctx, host); err != nil {
				o.unexplained("after the end: host %s does not start: %v", host, err)
			}
			o.guests.comeUp(host)
		}
	}
}
