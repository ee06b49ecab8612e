package spawn_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/nvidia"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
	"github.com/gocyborg/gocyborg/simcloud/drill"
)

// axis is something in which the clouds, agents and instances of the drill differ.
type axis struct {
	name   string
	values []value
}

// value is a value of an axis, and its effect on a life. No two axes have a value with the same name.
type value struct {
	name string
	set  func(*life)
}

// axes is the table of all that is combined.
func axes() []axis {
	release := func(r fakecyborg.Release) func(*life) { return func(l *life) { l.cyborg.Release = r } }
	layout := func(m fakecyborg.PlacementMode) func(*life) { return func(l *life) { l.cyborg.PlacementMode = m } }
	asks := func(a asked) func(*life) { return func(l *life) { l.asked = a } }
	does := func(operation string) func(*life) { return func(l *life) { l.operation = operation } }
	who := func(c credentials) func(*life) { return func(l *life) { l.tokens = c } }
	named := func(domain string, host func(string) string) func(*life) {
		return func(l *life) { l.domain, l.host = domain, host }
	}
	return []axis{
		{"handover", []value{
			{"one process", func(l *life) { l.spawn = inOneProcess }},
			{"two processes", func(l *life) { l.spawn = handedOver }},
		}},
		{"tokens", []value{
			{"an administrator's", who(administrators)},
			{"an administrator's, for another project", who(credentials{cyborg: "admin", placement: "admin", project: "demo"})},
			{"a member's, and Placement's own user", who(credentials{cyborg: "demo", placement: "nova"})},
			{"a service's, and a member's of another project with the request", who(credentials{cyborg: "nova", placement: "nova", request: "demo"})},
		}},
		{"release", []value{
			{"9.0.0", release("9.0.0")}, {"16.0.0", release("16.0.0")}, {"16.0.1", release("16.0.1")}, {"17.0.0", release("17.0.0")}, {"2027.1", release("2027.1")},
		}},
		{"asked for", []value{
			{"a GPU", asks(asked{profile: "gpu", flat: hasGPUs})},
			{"a vGPU", asks(asked{profile: "vgpu", flat: hasVGPUs})},
			{"two FPGAs and a vGPU", asks(asked{profile: "mixed"})},
			{"a function_id", asks(asked{profile: "crypto-by-id", image: imageCrypto, flat: hasRegion})},
			{"a bitstream_id", asks(asked{profile: "aes-by-bitstream", image: imageAES, flat: hasRegion})},
			{"a function_name", asks(asked{profile: "aes-by-name", image: imageAES, flat: hasRegion})},
			{"a bitstream_name", asks(asked{profile: "gzip-by-bitstream", image: imageGzip, flat: hasRegion})},
			{"a port's device", asks(asked{profile: "gpu", port: "nic", flat: hasPorts})},
		}},
		{"host names", []value{
			{"short", named("", sameName)},
			{"whole", named(".example.com", sameName)},
			{"whole of the node, short of Nova's host", named(".example.com", shortName)},
		}},
		{"mediated devices", []value{
			{"Cyborg creates them", func(*life) {}},
			{"nova-compute defines them", func(l *life) { l.cyborg.MdevCreation = fakecyborg.MdevsByNova }},
		}},
		{"agents", []value{
			{"one agent", func(l *life) { l.agents = func(_ *stage, flow drill.Flow) drill.Flow { return flow } }},
			{"two agents", func(l *life) { l.agents = (*stage).beside }},
		}},
		{"layout", []value{{"tree", layout(fakecyborg.ModeTree)}, {"nested", layout(fakecyborg.ModeNested)}, {"flat", layout(fakecyborg.ModeFlat)}}},
		{"binds", []value{
			{"in the PATCH", func(*life) {}},
			{"in the background", func(l *life) { l.cyborg = unkind(simcloud.Model{Cyborg: l.cyborg}).Cyborg }},
		}},
		{"writes", []value{
			{"apart", func(*life) {}},
			{"overlapping", func(l *life) { l.rules = overlappingWrites() }},
		}},
		{"operation", []value{
			{"spawn", does("spawn")}, {"delete", does("delete")}, {"hard reboot", does("hard reboot")}, {"resume", does("resume after host reboot")},
			{"unshelve", does("unshelve")}, {"evacuate", does("evacuate a vGPU, the host comes back")}, {"program", does("program")},
		}},
	}
}

// overlappingWrites are the rules of a cloud whose services take half a second between the check and the write of a request.
func overlappingWrites() (rules []fault.Rule) {
	for _, operation := range []sim.OperationName{fault.AllocationsWrite, fault.ARQWrite} {
		rules = append(rules, fault.Rule{Operation: operation, Action: fault.Delay, Delay: 500 * time.Millisecond, Times: -1})
	}
	return rules
}

// exclusion are values that no combination has together, and why.
type exclusion struct {
	values []string
	reason string
}

// exclusions are what cannot be, or means nothing.
func exclusions() (list []exclusion) {
	each := func(reason string, others []string, values ...string) {
		for _, other := range others {
			list = append(list, exclusion{append([]string{other}, values...), reason})
		}
	}
	regions := []string{"a function_id", "a bitstream_id", "a function_name", "a bitstream_name"}
	mediated := []string{"a vGPU", "two FPGAs and a vGPU"}
	members := []string{"a member's, and Placement's own user", "a service's, and a member's of another project with the request"}
	each("only a spawn is handed over", []string{"delete", "hard reboot", "resume", "unshelve", "evacuate", "program"}, "two processes")
	each("Cyborg 9 has no vGPUs", append(mediated, "nova-compute defines them"), "9.0.0")
	each("there is no mediated device", append(regions, "a GPU", "a port's device", "program"), "nova-compute defines them")
	each("all devices of a flat host have the same traits", []string{"flat"}, "two FPGAs and a vGPU")
	each("no region is asked for, or not a region alone", append(mediated, "a GPU", "a port's device"), "program")
	each("only its owner programs a region in use", []string{"program"}, "an administrator's, for another project")
	each("members do not read deployables", members, "program", "16.0.1")
	each("members do not read deployables", members, "program", "2027.1")
	each("Cyborg with its defects leaves such an ARQ BindStarted", []string{"9.0.0", "16.0.0"}, "program", "a function_id")
	each("Nova refuses to move an instance with such a port", []string{"unshelve", "evacuate"}, "a port's device")
	return list
}

// combination is a value of each axis.
type combination []value

func (c combination) String() string {
	text := ""
	for _, v := range c {
		text += ", " + v.name
	}
	return text[len(", "):]
}

// combinations are made from a seed. Each pair of values of two axes that is not excluded is in one.
func combinations(seed uint64) ([]combination, error) {
	table, all := axes(), exclusions()
	name := func(axis, value int) string { return table[axis].values[value].name }
	c := covering{random: rand.New(rand.NewPCG(seed, 0)), excluded: func(row []int) bool {
		has := map[string]bool{}
		for axis, v := range row {
			if v >= 0 {
				has[name(axis, v)] = true
			}
		}
		return slices.ContainsFunc(all, func(e exclusion) bool {
			return !slices.ContainsFunc(e.values, func(v string) bool { return !has[v] })
		})
	}}
	for _, a := range table {
		c.sizes = append(c.sizes, len(a.values))
	}
	rows, impossible := c.combinations()
	for _, p := range impossible {
		return nil, fmt.Errorf("no combination has %q and %q: exclude them with a reason", name(p[0].axis, p[0].value), name(p[1].axis, p[1].value))
	}
	var list []combination
	for _, row := range rows {
		var each combination
		for axis, v := range row {
			each = append(each, table[axis].values[v])
		}
		list = append(list, each)
	}
	return list, nil
}

// eachValue leaves as many combinations as it takes for each value to be in one.
func eachValue(all []combination) (some []combination) {
	seen := map[string]bool{}
	for {
		best, most := combination(nil), 0
		for _, c := range all {
			fresh := len(slices.DeleteFunc(slices.Clone(c), func(v value) bool { return seen[v.name] }))
			if fresh > most {
				best, most = c, fresh
			}
		}
		if best == nil {
			return some
		}
		for _, v := range best {
			seen[v.name] = true
		}
		some = append(some, best)
	}
}

// asked is what an instance asks for.
type asked struct {
	profile string // of the flavor
	port    string // the device profile of a port
	image   string // that its region has after the bind
	// flat leaves a host the devices for it, which have the same traits.
	flat func(*simcloud.Host)
}

func hasGPUs(h *simcloud.Host) {
	h.Sysfs.Devices, h.Devices = h.Sysfs.Devices[:2], nil
	h.Drivers = &builtin.Config{NVIDIA: &nvidia.Config{Policy: h.Drivers.NVIDIA.Policy}}
}

func hasVGPUs(h *simcloud.Host) {
	h.Sysfs.Devices, h.Devices = h.Sysfs.Devices[2:3], nil
	h.Drivers = &builtin.Config{NVIDIA: h.Drivers.NVIDIA}
}

func hasRegion(h *simcloud.Host) {
	h.Sysfs.Devices, h.Devices = h.Sysfs.Devices[4:], nil
	h.Drivers = &builtin.Config{EnabledDrivers: []string{builtin.IntelFPGA}}
}

func hasPorts(h *simcloud.Host) {
	h.Sysfs, h.Drivers = nil, nil
	h.Devices = slices.DeleteFunc(h.Devices, func(d driver.Device) bool { return d.Type != driver.TypeNIC })
}

// The table names each value once, and no exclusion is of a value that it does not name, or without a reason.
func TestTheAxesAreConsistent(t *testing.T) {
	t.Parallel()
	of := map[string]string{}
	for _, a := range axes() {
		for _, v := range a.values {
			if other, twice := of[v.name]; twice {
				t.Errorf("axis %s has the value %q of axis %s", a.name, v.name, other)
			}
			of[v.name] = a.name
		}
	}
	for _, e := range exclusions() {
		seen := map[string]bool{}
		for _, v := range e.values {
			if seen[of[v]] || of[v] == "" || e.reason == "" {
				t.Errorf("exclusion %+v: %q is of axis %q", e, v, of[v])
			}
			seen[of[v]] = true
		}
	}
	for seed := range uint64(3) {
		all, err := combinations(seed)
		if err != nil {
			t.Error(err)
		}
		seen := map[string]bool{}
		for _, c := range eachValue(all) {
			for _, v := range c {
				seen[v.name] = true
			}
		}
		if len(seen) != len(of) {
			t.Errorf("seed %d: the sample has %d of %d values", seed, len(seen), len(of))
		}
	}
}

// docs/dev/testing.md has a row for each value, with runs and faults.
func TestTheTestingPageHasEachValue(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/dev/testing.md")
	settled(t, err)
	_, rows, _ := strings.Cut(string(page), axesHeader)
	rows, _, _ = strings.Cut(rows, "\n\n")
	var want, got []string
	for _, a := range axes() {
		for _, v := range a.values {
			want = append(want, a.name+" | "+v.name)
		}
	}
	for row := range strings.SplitSeq(strings.TrimSpace(rows), "\n") {
		fields := strings.Split(strings.Trim(row, "| "), " | ")
		got = append(got, strings.Join(fields[:min(2, len(fields))], " | "))
		if len(fields) != 5 || slices.Contains(fields, "0") {
			t.Errorf("row %q does not have three numbers above 0", row)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows of docs/dev/testing.md (-want +got): run the stage drill and copy .ci/out/axes.md\n%s", diff)
	}
}
