package cloudmodel

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fault"
)

// script is a random test.
type script struct {
	Hosts  int  `json:"hosts"`
	Agents int  `json:"agents"`
	Slow   bool `json:"slow,omitempty"` // Cyborg binds later, and its database shows what was written later
	// NovaMdevs lets nova-compute define mediated devices, in place of Cyborg's agent.
	NovaMdevs bool `json:"nova_mdevs,omitempty"`
	Steps     []step
}

// step is what is done at the same time, and under which faults.
type step struct {
	Actions []action
	Faults  []fault.Rule `json:",omitempty"`
}

// action is one operation of an agent, or something that befalls the cloud.
type action struct {
	Do    string
	Agent int `json:",omitempty"`
	Pick  int `json:",omitempty"` // which of the instances, hosts or devices that it may be about
	With  int `json:",omitempty"` // which of its variants
	CutAt int `json:",omitempty"` // the request at which the caller's context ends
	DieAt int `json:",omitempty"` // the request at which the process dies
}

func (s script) String() string {
	lines := []string{fmt.Sprintf("%d hosts, %d agents, slow: %t, Nova's mediated devices: %t", s.Hosts, s.Agents, s.Slow, s.NovaMdevs)}
	for n, step := range s.Steps {
		text, err := json.Marshal(step)
		lines = append(lines, fmt.Sprintf("%3d %s", n, text))
		if err != nil {
			return err.Error()
		}
	}
	return strings.Join(lines, "\n")
}

// frequency is how often an action is drawn, of all.
var frequency = []struct {
	do string
	n  int
}{
	{"spawn", 8}, {"delete", 4}, {"stop", 3}, {"start", 4}, {"soft reboot", 2}, {"hard reboot", 2}, {"rebuild", 3}, {"rescue", 2}, {"unrescue", 4},
	{"shelve offload", 2}, {"unshelve", 7}, {"evacuate", 10}, {"local delete", 3}, {"resume", 3}, {"program", 4}, {"add devices", 3}, {"release devices", 5},
	{"get Nova's vGPU", 1}, {"take over", 6},
	{"reconcile", 3}, {"host down", 1}, {"host up", 3}, {"host reboot", 1}, {"device vanishes", 2}, {"devices return", 2}, {"profile changes", 3}, {"hours pass", 1},
}

var total = func() (n int) {
	for _, f := range frequency {
		n += f.n
	}
	return n
}()

// instead is what is done when there is nothing that an action may be about, so that there is something the next time.
var instead = map[string]string{
	"delete": "spawn", "stop": "spawn", "start": "stop", "soft reboot": "spawn", "hard reboot": "spawn", "rebuild": "spawn", "rescue": "spawn",
	"unrescue": "rescue", "shelve offload": "spawn", "unshelve": "shelve offload", "evacuate": "host down", "local delete": "host down",
	"resume": "spawn", "program": "spawn", "add devices": "spawn", "release devices": "add devices", "get Nova's vGPU": "spawn", "take over": "get Nova's vGPU", "host down": "host up", "host up": "host down",
}

func drawAction(r *rand.Rand) action {
	n := r.IntN(total)
	a := action{Agent: r.IntN(4), Pick: r.IntN(8), With: r.IntN(24)}
	for _, f := range frequency {
		if a.Do = f.do; n < f.n {
			break
		}
		n -= f.n
	}
	switch r.IntN(8) { // one of four is disturbed
	case 0:
		a.CutAt = 1 + r.IntN(20)
	case 1:
		a.DieAt = 1 + r.IntN(20)
	}
	return a
}

// ways are how an operation can fail.
var ways = []fault.Rule{
	{Action: fault.Status, Status: 500},
	{Action: fault.Status, Status: 409},
	{Action: fault.Status, Status: 403},
	{Action: fault.Proxy, Status: 503},
	{Action: fault.Proxy, Status: 504, When: fault.After},
	{Action: fault.Drop},
	{Action: fault.Drop, When: fault.After},
	{Action: fault.Truncate},
	{Action: fault.Malformed},
	{Action: fault.Delay, Delay: 7 * time.Minute},
	{Action: fault.Delay, Delay: 7 * time.Minute, When: fault.After},
	{Action: fault.SlowBody, Delay: 7 * time.Minute},
	{Action: fault.Late, Delay: 20 * time.Millisecond},
	{Action: fault.Late, Delay: 5 * time.Second},
	{Action: fault.Late, Delay: 7 * time.Minute},
	{Action: fault.ExpireToken},
	{Action: fault.ExpireServiceToken},
	{Action: fault.Duplicate},
	{Action: fault.Reorder},
	{Action: fault.Reboot, Delay: 5 * time.Second},
	{Action: fault.Status, When: fault.After},
}

// faultsOf lists a rule for every operation of a set and every way in which it can fail.
func faultsOf(set *fault.Set) (rules []fault.Rule) {
	for _, operation := range set.Describe() {
		service, _, _ := strings.Cut(string(operation.Name), ".")
		isRequest := slices.Contains(operation.Actions, fault.Malformed)
		for _, rule := range ways {
			rule.Operation = operation.Name
			switch {
			case !concerns(string(operation.Name)) || !slices.Contains(operation.Actions, rule.Action):
			case rule.Action == fault.Status && rule.When == fault.After && service != "hypervisor": // a proxy's
			case rule.Action == fault.Status && rule.Status != 500 && rule.Status != 0 && !isRequest:
			default:
				if strings.HasPrefix(string(operation.Name), "accelerator.agent.") && rule.Action == fault.Drop {
					rule.Delay = 5 * time.Second // longer silences are those of hosts that are down
				}
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// concerns reports whether an operation is part of a flow, or of the work of Cyborg's agents.
func concerns(operation string) bool {
	if operation == "accelerator.device.find" { // an action of its own
		return false
	}
	for _, of := range []string{
		"accelerator.arq.", "accelerator.agent.", "accelerator.device_profile.list", "accelerator.deployable", "accelerator.event", "accelerator.mdev",
		"placement.allocation", "placement.resource_provider.", "placement.rp_", "placement.inventor", "compute.external", "hypervisor.", "identity.token.create", "image.",
	} {
		if strings.HasPrefix(operation, of) {
			return true
		}
	}
	return false
}

// draw makes a script. Each of the rules has the same chance.
func draw(r *rand.Rand, rules []fault.Rule) script {
	s := script{Hosts: 2 + r.IntN(3), Agents: 2 + r.IntN(3), Slow: r.IntN(2) == 0, NovaMdevs: r.IntN(3) == 0}
	for range 1 + r.IntN(2) { // some instances to begin with
		var of step
		for range 3 {
			of.Actions = append(of.Actions, action{Do: "spawn", Agent: r.IntN(4), Pick: r.IntN(8), With: r.IntN(24)})
		}
		s.Steps = append(s.Steps, of)
	}
	for range 4 + r.IntN(16) {
		var of step
		for range 1 + r.IntN(3) {
			of.Actions = append(of.Actions, drawAction(r))
		}
		for range max(0, r.IntN(6)-2) {
			rule := rules[r.IntN(len(rules))]
			rule.Nth, rule.Times = 1+r.IntN(3), []int{1, 1, 1, 2, 6}[r.IntN(5)]
			of.Faults = append(of.Faults, rule)
		}
		s.Steps = append(s.Steps, of)
	}
	return s
}

// shrink leaves out of a script all without which it fails as well, in at most so many tries.
func shrink(s script, tries int, fails func(script) bool) script {
	try := func(smaller script) bool {
		if tries--; tries < 0 || !fails(smaller) {
			return false
		}
		s = smaller
		return true
	}
	for n := len(s.Steps) / 2; n > 0; n /= 2 {
		for at := len(s.Steps) - n; at >= 0; at -= n {
			smaller := s
			smaller.Steps = slices.Delete(slices.Clone(s.Steps), at, min(at+n, len(s.Steps)))
			try(smaller)
			at = min(at, len(s.Steps))
		}
	}
	change := func(n int, do func(*step)) {
		smaller := s
		smaller.Steps = slices.Clone(s.Steps)
		of := step{Actions: slices.Clone(s.Steps[n].Actions), Faults: slices.Clone(s.Steps[n].Faults)}
		do(&of)
		smaller.Steps[n] = of
		try(smaller)
	}
	for n := range s.Steps {
		for at := len(s.Steps[n].Faults) - 1; at >= 0; at-- {
			change(n, func(of *step) { of.Faults = slices.Delete(of.Faults, at, at+1) })
		}
		for at := len(s.Steps[n].Actions) - 1; at >= 0; at-- {
			change(n, func(of *step) { of.Actions = slices.Delete(of.Actions, at, at+1) })
		}
		for at, act := range s.Steps[n].Actions {
			if act.CutAt+act.DieAt > 0 {
				change(n, func(of *step) { of.Actions[at].CutAt, of.Actions[at].DieAt = 0, 0 })
			}
		}
	}
	smaller := s
	smaller.Slow = false
	try(smaller)
	smaller = s
	smaller.NovaMdevs = false
	try(smaller)
	return s
}
