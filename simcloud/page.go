package simcloud

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/statuspage"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
)

// shownRequests is how many of the last requests the page draws.
const shownRequests = 100

// EndStreams lets the pages that follow the cloud go, for
// [net/http.Server.RegisterOnShutdown]: their connections last longer than a server
// wants to wait.
func (c *Cloud) EndStreams() { c.endStreams() }

// version differs when something has changed that the page shows.
func (c *Cloud) version() string {
	hits := 0
	rules := c.faults.Rules()
	for _, r := range rules {
		hits += r.Hits
	}
	return fmt.Sprint(c.recorder.Started(), len(rules), hits, len(c.Guests()), c.clock.Now().Unix()/10)
}

// world is what the page shows.
func (c *Cloud) world() statuspage.World {
	_, manual := c.clock.(*sim.ManualClock)
	w := statuspage.World{Now: c.clock.Now(), Manual: manual, Hosts: c.pageHosts(), States: pageStates(c.Cyborg.ARQs())}
	for _, l := range c.Leaks() {
		w.Leaks = append(w.Leaks, l.Text)
	}
	for _, r := range c.faults.Rules() {
		text, err := json.Marshal(r.Rule)
		if err != nil {
			text = []byte(err.Error())
		}
		w.Faults = append(w.Faults, statuspage.Fault{Text: string(text), Hits: r.Hits})
	}
	requests := c.Requests()
	for _, r := range requests[max(0, len(requests)-shownRequests):] {
		w.Exchanges = append(w.Exchanges, statuspage.Exchange{
			From: speaker(r.From), To: addressee(r.Service), What: r.Method + " " + short(r.Path),
			Status: r.Status, Fault: r.Fault, Started: r.Started, Changes: changeLines(r),
		})
	}
	return w
}

// pageHosts are the hosts with their provider trees.
func (c *Cloud) pageHosts() []statuspage.Host {
	providers, used := c.Placement.ResourceProviders(), make(map[[2]string]int)
	for _, a := range c.Placement.Allocations() {
		used[[2]string{a.Provider, a.Class}] += a.Used
	}
	var hosts []statuspage.Host
	for _, p := range providers {
		if p.Parent != "" {
			continue
		}
		h := statuspage.Host{Name: p.Name, Providers: subtree(providers, used, p, 0)}
		for _, g := range c.Guests() {
			if g.Host == p.Name {
				h.Guests = append(h.Guests, g.UUID)
			}
		}
		hosts = append(hosts, h)
	}
	return hosts
}

func subtree(all []placementsim.ResourceProvider, used map[[2]string]int, p placementsim.ResourceProvider, depth int) []statuspage.Provider {
	node := statuspage.Provider{Name: p.Name, UUID: p.UUID, Depth: min(depth, 3), Traits: p.Traits}
	for class, inventory := range p.Inventories {
		node.Inventories = append(node.Inventories, statuspage.Inventory{
			Class: class, Used: used[[2]string{p.UUID, class}], Reserved: inventory.Reserved, Total: inventory.Total,
		})
	}
	slices.SortFunc(node.Inventories, func(a, b statuspage.Inventory) int { return strings.Compare(a.Class, b.Class) })
	list := []statuspage.Provider{node}
	for _, child := range all {
		if child.Parent == p.UUID {
			list = append(list, subtree(all, used, child, depth+1)...)
		}
	}
	return list
}

// pageStates are the states of accelerator requests, the usual ones also when empty.
func pageStates(arqs []fakecyborg.ARQ) []statuspage.State {
	names := []fakecyborg.State{fakecyborg.StateInitial, fakecyborg.StateBindStarted, fakecyborg.StateBound, fakecyborg.StateBindFailed}
	for _, a := range arqs {
		if !slices.Contains(names, a.State) {
			names = append(names, a.State)
		}
	}
	states := make([]statuspage.State, len(names))
	for i, name := range names {
		states[i].Name = string(name)
		for _, a := range arqs {
			if a.State == name {
				states[i].ARQs = append(states[i].ARQs, statuspage.ARQ{
					UUID: a.UUID, Profile: a.DeviceProfileName, Instance: a.InstanceUUID, Host: a.Hostname, Failure: a.Failure,
				})
			}
		}
	}
	return states
}

// speaker names the sender of a request by its User-Agent.
func speaker(agent string) string {
	if strings.HasPrefix(agent, "cyborg") {
		return "Cyborg"
	}
	return "client"
}

// addressee names a service as people do.
func addressee(service string) string {
	names := map[string]string{
		"accelerator": "Cyborg", "placement": "Placement", "identity": "Keystone", "compute": "Nova", "image": "Glance",
	}
	if name, ok := names[service]; ok {
		return name
	}
	return service
}

var inPath = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// short leaves out the mount point, and most of each UUID.
func short(path string) string {
	for _, entry := range catalog() {
		path = strings.TrimPrefix(path, entry.Path)
	}
	path = strings.TrimPrefix(path, "/identity/v3")
	return shortIDs(path)
}

// shortIDs leaves out most of each UUID.
func shortIDs(text string) string {
	return inPath.ReplaceAllStringFunc(text, func(id string) string { return id[:8] + "…" })
}
