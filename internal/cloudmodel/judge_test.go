package cloudmodel

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/simcloud"
)

// arq is an accelerator request as Cyborg shows it.
type arq struct {
	UUID      string            `json:"uuid"`
	State     string            `json:"state"`
	Profile   string            `json:"device_profile_name"`
	Group     int               `json:"device_profile_group_id"`
	Host      string            `json:"hostname"`
	Provider  string            `json:"device_rp_uuid"`
	Instance  string            `json:"instance_uuid"`
	Project   string            `json:"project_id"`
	Type      string            `json:"attach_handle_type"`
	Handle    string            `json:"attach_handle_uuid"`
	Info      map[string]string `json:"attach_handle_info"`
	CreatedAt time.Time         `json:"created_at"`
}

// device is how a domain names the device of the request; "" for a handle without hardware.
func (a arq) device() string {
	switch {
	case a.State != "Bound" || a.Type == "TEST_PCI":
		return ""
	case a.Type == "MDEV":
		return "mdev " + a.Handle
	}
	return pciDevice(a.Info["domain"], a.Info["bus"], a.Info["device"], a.Info["function"])
}

func pciDevice(parts ...string) string {
	var numbers []any
	for _, part := range parts {
		n, err := strconv.ParseUint(strings.TrimPrefix(part, "0x"), 16, 32)
		if err != nil {
			return fmt.Sprintf("pci %q", parts)
		}
		numbers = append(numbers, n)
	}
	return fmt.Sprintf("pci %04x:%02x:%02x.%x", numbers...)
}

// devicesOf lists the devices of a domain, host devices and interfaces.
func devicesOf(domain string) ([]string, error) {
	type address struct {
		UUID     string `xml:"uuid,attr"`
		Domain   string `xml:"domain,attr"`
		Bus      string `xml:"bus,attr"`
		Slot     string `xml:"slot,attr"`
		Function string `xml:"function,attr"`
	}
	type device struct {
		Type    string  `xml:"type,attr"`
		Address address `xml:"source>address"`
	}
	var read struct {
		Hostdevs   []device `xml:"devices>hostdev"`
		Interfaces []device `xml:"devices>interface"`
	}
	if err := xml.Unmarshal([]byte(domain), &read); err != nil {
		return nil, fmt.Errorf("domain: %w", err)
	}
	var list []string
	for _, d := range read.Hostdevs {
		if d.Type == "mdev" {
			list = append(list, "mdev "+strings.ToLower(d.Address.UUID))
			continue
		}
		list = append(list, pciDevice(d.Address.Domain, d.Address.Bus, d.Address.Slot, d.Address.Function))
	}
	for _, d := range read.Interfaces {
		if d.Type == "hostdev" {
			list = append(list, pciDevice(d.Address.Domain, d.Address.Bus, d.Address.Slot, d.Address.Function))
		}
	}
	slices.Sort(list)
	return list, nil
}

// provider is a resource provider of Placement.
type provider struct {
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Parent string `json:"parent_provider_uuid"`
}

// view is what the services and the hosts show at an instant.
type view struct {
	arqs      []arq
	providers map[string]provider
	held      map[string]map[string]map[string]int // by consumer, provider and class
	projects  map[string]string                    // by consumer
	traits    map[string][]string                  // by provider with a region
	mdevs     map[string]string                    // hosts by mediated device
	leaks     []simcloud.Leak
}

// reader asks the services with an administrator's token.
type reader struct {
	ctx   context.Context
	cloud *simcloud.Cloud
	token string
	err   error
}

func (r *reader) get(path, version string, into any) {
	if r.err != nil {
		return
	}
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.cloud.URL()+path, nil)
	if err != nil {
		r.err = err
		return
	}
	req.Header.Set("X-Auth-Token", r.token)
	req.Header.Set("OpenStack-API-Version", version)
	answer, err := r.cloud.Transport().RoundTrip(req)
	if err != nil {
		r.err = err
		return
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		r.err = err
	case answer.StatusCode != http.StatusOK:
		r.err = fmt.Errorf("GET %s: %s: %s", path, answer.Status, body)
	default:
		r.err = json.Unmarshal(body, into)
	}
}

// look reads everything.
func (w *world) look(ctx context.Context) (v view, err error) {
	admin, err := w.cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return v, err
	}
	r := &reader{ctx: ctx, cloud: w.cloud, token: admin.Token()}
	var arqs struct {
		ARQs []arq `json:"arqs"`
	}
	r.get("/accelerator/v2/accelerator_requests", "accelerator 2.1", &arqs)
	var providers struct {
		ResourceProviders []provider `json:"resource_providers"`
	}
	r.get("/placement/resource_providers", "placement 1.36", &providers)
	v = view{arqs: arqs.ARQs, providers: map[string]provider{}, held: map[string]map[string]map[string]int{}, projects: map[string]string{}, traits: map[string][]string{}, mdevs: map[string]string{}}
	for _, p := range providers.ResourceProviders {
		v.providers[p.UUID] = p
	}
	for _, consumer := range w.order { // no other consumer exists
		var held struct {
			Allocations map[string]struct{ Resources map[string]int } `json:"allocations"`
			Project     string                                        `json:"project_id"`
		}
		r.get("/placement/allocations/"+consumer, "placement 1.36", &held)
		v.projects[consumer] = held.Project
		for p, of := range held.Allocations {
			if v.held[consumer] == nil {
				v.held[consumer] = map[string]map[string]int{}
			}
			v.held[consumer][p] = of.Resources
		}
	}
	for _, a := range v.arqs {
		var traits struct {
			Traits []string `json:"traits"`
		}
		if i := w.instances[a.Instance]; i != nil && i.image != "" && v.providers[a.Provider].UUID != "" {
			r.get("/placement/resource_providers/"+a.Provider+"/traits", "placement 1.36", &traits)
			v.traits[a.Provider] = traits.Traits
		}
	}
	var leaks struct {
		Leaks []simcloud.Leak `json:"leaks"`
	}
	r.get("/_sim/leaks", "", &leaks)
	v.leaks = leaks.Leaks
	for _, host := range w.cloud.HostNames() {
		mdevs, err := w.cloud.Mdevs(host)
		if err != nil {
			return v, err
		}
		defined, err := w.cloud.DefinedMdevs(host)
		if err != nil {
			return v, err
		}
		for _, m := range slices.Concat(defined, mdevs) {
			v.mdevs[m.UUID] = host
		}
	}
	return v, r.err
}

// inventories counts the devices of all providers but Nova's by class.
func (w *world) inventories(ctx context.Context, v view) (map[string]int, error) {
	admin, err := w.cloud.ProviderClient(ctx, "admin")
	if err != nil {
		return nil, err
	}
	r := &reader{ctx: ctx, cloud: w.cloud, token: admin.Token()}
	all := map[string]int{}
	for _, p := range v.providers {
		var inventories struct {
			Inventories map[string]struct{ Total, Reserved int } `json:"inventories"`
		}
		r.get("/placement/resource_providers/"+p.UUID+"/inventories", "placement 1.36", &inventories)
		for class, of := range inventories.Inventories {
			if !strings.Contains(p.Name, "_pci_") {
				all[class] += of.Total - of.Reserved
			}
		}
	}
	return all, r.err
}

// host is the host of a provider.
func (v view) host(uuid string) string {
	p := v.providers[uuid]
	for p.Parent != "" {
		p = v.providers[p.Parent]
	}
	return p.Name
}

// root is the provider of a host.
func (v view) root(host string) string {
	for _, p := range v.providers {
		if p.Name == host && p.Parent == "" {
			return p.UUID
		}
	}
	return ""
}

// thing is something that holds an accelerator, or may.
type thing struct{ kind, id string }

// ownerless lists what belongs to no instance that counts, with a text.
func (v view) ownerless(counts func(instance string) bool) map[thing]string {
	found := map[thing]string{}
	handles := map[string]arq{}
	for _, a := range v.arqs {
		if a.Handle != "" {
			handles[a.Handle] = a
		}
		if !counts(a.Instance) {
			found[thing{simcloud.LeakARQ, a.UUID}] = fmt.Sprintf("ARQ %s of profile %s is %s, of instance %q on host %q", a.UUID, a.Profile, a.State, a.Instance, a.Host)
		}
	}
	for consumer, held := range v.held {
		if !counts(consumer) {
			found[thing{simcloud.LeakAllocation, consumer}] = fmt.Sprintf("consumer %s has an allocation: %v", consumer, v.names(held))
		}
	}
	for mdev, host := range v.mdevs {
		if a := handles[mdev]; a.Host != host { // otherwise it is its request's
			found[thing{simcloud.LeakMdev, mdev}] = fmt.Sprintf("host %s has the mediated device %s, whose request is of instance %q on host %q", host, mdev, a.Instance, a.Host)
		}
	}
	return found
}

func (v view) names(held map[string]map[string]int) map[string]map[string]int {
	named := map[string]map[string]int{}
	for p, classes := range held {
		named[v.providers[p].Name] = classes
	}
	return named
}

// twice lists the handles that two requests have, and the devices that two guests have.
func (w *world) twice(v view) (problems []string) {
	owners := map[string]string{}
	own := func(what, owner string) {
		if before := owners[what]; before != "" && before != owner {
			problems = append(problems, fmt.Sprintf("%s has two owners, %s and %s", what, before, owner))
		}
		owners[what] = owner
	}
	for _, a := range v.arqs {
		if a.Handle != "" {
			own("handle "+a.Handle, "ARQ "+a.UUID)
		}
	}
	for _, p := range w.guests.places() {
		if w.guests.isDown(p.host) {
			continue
		}
		g, _ := w.guests.at(p)
		for _, domain := range []string{g.saved, g.started} {
			if domain == "" {
				continue
			}
			devices, err := devicesOf(domain)
			if err != nil {
				problems = append(problems, err.Error())
			}
			for _, d := range devices {
				own(d+" of host "+p.host, "the guest of instance "+p.instance)
			}
		}
	}
	return problems
}

// functionTrait is the trait of the function of a bitstream.
func functionTrait(image string) string {
	n := slices.IndexFunc(images, func(i simcloud.Image) bool { return i.ID == image })
	function := strings.ReplaceAll(images[n].Properties["accel:function_id"], "-", "")
	return "CUSTOM_FPGA_FUNCTION_ID_INTEL_" + strings.ToUpper(function)
}

// whole says what an instance lacks, or has too much, by its device profile.
func (w *world) whole(v view, i *instance) (problems []string) {
	wrong := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf("instance %s (%s) on host %q: ", i.UUID, i.profile, i.Host)+fmt.Sprintf(format, args...))
	}
	counts := map[group]int{}
	expected := map[string]map[string]int{} // by provider and class
	if root := v.root(i.Host); i.Host != "" {
		expected[root] = map[string]int{"VCPU": flavorVCPUs, "MEMORY_MB": flavorMemory, "DISK_GB": flavorDisk}
	}
	var devices []string
	for _, a := range v.arqs {
		if a.Instance != i.UUID || a.Host != i.Host {
			continue
		}
		class := i.classOf(a)
		counts[group{a.Profile, a.Group, class}]++
		if expected[a.Provider] == nil {
			expected[a.Provider] = map[string]int{}
		}
		expected[a.Provider][class]++
		switch {
		case a.State != "Bound":
			wrong("ARQ %s is %s", a.UUID, a.State)
		case v.host(a.Provider) != i.Host:
			wrong("ARQ %s has a provider of host %q", a.UUID, v.host(a.Provider))
		case a.Project != i.project:
			wrong("ARQ %s is of project %s, want %s", a.UUID, a.Project, i.project)
		case a.Handle == "":
			wrong("ARQ %s has no handle", a.UUID)
		}
		if d := a.device(); d != "" {
			devices = append(devices, d)
		}
		if i.image != "" && !slices.Contains(v.traits[a.Provider], functionTrait(i.image)) && a.Profile != "nic" {
			wrong("provider %s has the traits %v, and the region bitstream %s", v.providers[a.Provider].Name, v.traits[a.Provider], i.image)
		}
		if _, there := v.mdevs[a.Handle]; a.Type == "MDEV" && !there {
			wrong("the mediated device %s is not there", a.Handle)
		}
	}
	if i.nova != "" {
		devices = append(devices, "mdev "+i.nova)
		for _, p := range v.providers {
			if p.Name == i.Host+"_pci_0000_e1_00_0" {
				expected[p.UUID] = map[string]int{"VGPU": 1}
			}
		}
	}
	slices.Sort(devices)
	if !maps.Equal(counts, i.want) {
		wrong("it has the requests %v, want %v", counts, i.want)
	}
	if held := v.held[i.UUID]; !maps.EqualFunc(held, expected, maps.Equal[map[string]int, map[string]int]) {
		wrong("its allocation is %v, want %v", v.names(held), v.names(expected))
	}
	if got := v.projects[i.UUID]; i.Host != "" && got != i.project {
		wrong("its allocation is of project %s, want %s", got, i.project)
	}
	g, there := w.guests.at(place{i.UUID, i.Host})
	if there != (i.Host != "") {
		wrong("there is a guest: %t", there)
	}
	if running := g.started != ""; running != i.runs {
		wrong("the guest runs: %t, want %t", running, i.runs)
	}
	for _, domain := range []string{g.saved, g.started} {
		if domain == "" {
			continue
		}
		want := devices
		if i.rescued != nil {
			want = nil
		}
		switch got, err := devicesOf(domain); {
		case err != nil:
			wrong("%v", err)
		case !slices.Equal(got, want):
			wrong("the domain has the devices %v, want %v", got, want)
		}
	}
	return problems
}

// disagree compares what the judge finds of guests with what the leak check of the cloud and of its API find.
func (w *world) disagree(v view) (problems []string) {
	guests := map[string]string{}
	for _, g := range w.cloud.Guests() {
		guests[g.UUID] = g.Host
	}
	found := v.ownerless(func(instance string) bool { return guests[instance] != "" })
	theirs := map[thing]bool{}
	for _, l := range v.leaks {
		theirs[thing{l.Kind, l.Subject}] = true
	}
	for what, text := range found {
		if !theirs[what] {
			problems = append(problems, "GET /_sim/leaks does not list: "+text)
		}
	}
	for _, l := range v.leaks {
		what, text := thing{l.Kind, l.Subject}, l.Text
		switch what.kind {
		case simcloud.LeakGuest:
			if w.isNamed(v, thing{simcloud.LeakARQ, l.ARQ}) {
				continue // both exist until the agent of its host answers
			}
			if i := w.instances[what.id]; i != nil && i.isWhole() && i.rescued == nil && !w.guests.isDown(guests[what.id]) {
				problems = append(problems, "GET /_sim/leaks lists: "+text)
			}
			continue
		case simcloud.LeakHandle, simcloud.LeakVGPU, simcloud.LeakHost:
			if slices.ContainsFunc(w.downHosts(), func(host string) bool { return strings.Contains(text, "on host "+host+" ") }) {
				continue
			}
			problems = append(problems, "GET /_sim/leaks lists: "+text)
			continue
		}
		if _, there := found[what]; !there && !w.isOfLostHost(v, what) {
			problems = append(problems, "the judge does not find: "+text)
		}
	}
	for what, text := range w.partial(v) {
		if i := w.instances[what]; i != nil && i.isWhole() && !slices.ContainsFunc(v.leaks, func(l simcloud.Leak) bool { return l.Subject == what || strings.Contains(l.Text, what) }) {
			problems = append(problems, "GET /_sim/leaks does not list: "+text)
		}
	}
	own, err := json.Marshal(w.cloud.Leaks())
	api, err2 := json.Marshal(v.leaks)
	if err != nil || err2 != nil || string(own) != string(api) && len(v.leaks) > 0 {
		problems = append(problems, fmt.Sprintf("Leaks has %s, GET /_sim/leaks has %s (%v, %v)", own, api, err, err2))
	}
	slices.Sort(problems)
	return problems
}

// isOfLostHost reports whether a leak is of a host that is down, where nothing can be changed.
func (w *world) isOfLostHost(v view, what thing) bool {
	for _, a := range v.arqs {
		if a.UUID == what.id || a.Handle == what.id {
			return w.guests.isDown(a.Host)
		}
	}
	return false
}

// partial lists the instances that are not whole and should be.
func (w *world) partial(v view) map[string]string {
	found := map[string]string{}
	for _, i := range w.list() {
		if !i.isWhole() || w.guests.isDown(i.Host) {
			continue
		}
		if problems := w.whole(v, i); len(problems) > 0 {
			found[i.UUID] = strings.Join(problems, "; ")
		}
	}
	return found
}
