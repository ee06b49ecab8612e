package builtin_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
)

// TestTheTablesOfDriversMatchTheDrivers keeps docs/drivers.md and docs/dev/drivers.md true. The tables are
// what the drivers claim, read and report on the machine of this package's tests.
func TestTheTablesOfDriversMatchTheDrivers(t *testing.T) {
	t.Parallel()
	for file, tables := range map[string]map[string]string{
		"drivers.md":     {"drivers": driverTable(t), "options": optionTable(t)},
		"dev/drivers.md": {"files": fileTable(t)},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", file))
		if err != nil {
			t.Fatal(err)
		}
		want := string(text)
		for name, table := range tables {
			begin, end := "<!-- "+name+": generated -->\n", "<!-- end of "+name+" -->"
			before, rest, ok1 := strings.Cut(want, begin)
			_, after, ok2 := strings.Cut(rest, end)
			if !ok1 || !ok2 {
				t.Fatalf("docs/%s has no place for the table %s", file, name)
			}
			want = before + begin + table + end + after
		}
		switch {
		case want == string(text):
		case os.Getenv("GOCYBORG_UPDATE") == "":
			t.Errorf("docs/%s is not what the drivers do: GOCYBORG_UPDATE=1 go test ./driver/builtin writes it", file)
		default:
			if err := os.WriteFile(filepath.Join("..", "..", "docs", file), []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func row(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }

func code(texts ...string) string {
	if len(texts) == 0 {
		return "-"
	}
	return "`" + strings.Join(texts, "`, `") + "`"
}

func driverTable(t *testing.T) string {
	drivers := load(t, allOn(), generate(t, everything()))
	reports := driver.DiscoverAll(t.Context(), drivers)
	table := row("enabled_drivers", "name", "PCI functions claimed", "device type", "resource class: traits of one deployable", "attach handle") + "|---|---|---|---|---|---|\n"
	for i, d := range drivers {
		var types, classes, handles []string
		add := func(list *[]string, text string) {
			if !slices.Contains(*list, text) {
				*list = append(*list, text)
			}
		}
		for _, device := range reports[i].Devices {
			add(&types, device.Type)
			for _, p := range device.Deployables {
				if !slices.ContainsFunc(classes, func(c string) bool { return strings.HasPrefix(c, "`"+p.Class+"`") }) {
					add(&classes, strings.TrimSuffix(code(p.Class)+": "+code(p.Traits...), ": -"))
				}
				add(&handles, p.AttachHandles[0].Type)
			}
		}
		table += row(code(builtin.Names()[i]), d.Name(), claimsOf(d), strings.Join(types, ", "), strings.Join(classes, "; "), strings.Join(handles, ", "))
	}
	return table
}

func claimsOf(d driver.Driver) string {
	c, ok := d.(driver.Claimer)
	if !ok {
		return "-"
	}
	var list []string
	for _, claim := range c.Claims() {
		if strings.HasPrefix(claim.Why, "passthrough_whitelist") {
			return "whitelisted functions"
		}
		text := "any"
		if claim.Vendor != 0 {
			text = fmt.Sprintf("%04x:*", claim.Vendor)
		}
		if claim.Product != 0 {
			text = fmt.Sprintf("%04x:%04x", claim.Vendor, claim.Product)
		}
		if claim.Class != 0 {
			text += fmt.Sprintf(" class %04x", claim.Class)
		}
		if text = "`" + text + "`"; !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return cmp.Or(strings.Join(list, ", "), "-")
}

// placeholders turn the names of one machine into patterns.
var placeholders = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]`), "ADDRESS"},
	{regexp.MustCompile(`devices/pci[^ ]*/ADDRESS`), "bus/pci/devices/ADDRESS"},
	{regexp.MustCompile(`(nvidia|mtty)-[0-9]+`), "TYPE"},
	{regexp.MustCompile(`mdev_bus/mtty`), "mdev_bus/PARENT"},
	{regexp.MustCompile(`iommu_groups/[0-9]+`), "iommu_groups/N"},
	{regexp.MustCompile(`(net)/[a-z]+[0-9]+`), "$1/NAME"},
	{regexp.MustCompile(`(intel-fpga-(?:dev|fme|port)\.)[0-9]+`), "${1}N"},
	{regexp.MustCompile(`(dfl-(?:fme|port|fme-mgr|fme-region)\.)[0-9]+`), "${1}N"},
	{regexp.MustCompile(`(/(?:region|fpga))[0-9]+`), "${1}N"},
	{regexp.MustCompile(`data/b[0-9]+:[0-9]+`), "data/bMAJOR:MINOR"},
	{regexp.MustCompile(`nvme[0-9]+n[0-9]+p[0-9]+`), "nvmeNnNpN"},
	{regexp.MustCompile(`nvme[0-9]+n[0-9]+`), "nvmeNnN"},
	{regexp.MustCompile(`nvme[0-9]+`), "nvmeN"},
	{regexp.MustCompile(`ptp[0-9]+`), "ptpN"},
	{regexp.MustCompile(`virtfn[0-9]+`), "virtfnN"},
}

// fileTable lists what each driver reads when it is alone.
func fileTable(t *testing.T) string {
	readers := make(map[string][]string)
	for _, name := range builtin.Names() {
		c := &tally{Tree: generate(t, everything()), reads: make(map[string]int)}
		config := allOn()
		config.EnabledDrivers = []string{name}
		discover(t, config, c)
		for read := range c.reads {
			for _, p := range placeholders {
				read = p.pattern.ReplaceAllString(read, p.text)
			}
			if !slices.Contains(readers[read], name) {
				readers[read] = append(readers[read], name)
			}
		}
	}
	table := row("kind", "name below the mount", "drivers") + "|---|---|---|\n"
	for _, read := range slices.Sorted(maps.Keys(readers)) {
		kind, name, _ := strings.Cut(read, " ")
		who := code(readers[read]...)
		if len(readers[read]) == len(builtin.Names())-2 { // fake and mdev do not look at PCI
			who = "all of PCI hardware"
		}
		table += row(kind, code(name), who)
	}
	return table
}

// upstreamNames maps our options to upstream's. Options that upstream lacks are not in it.
func upstreamNames() map[string]string {
	return map[string]string{
		"enabled_drivers":           "[agent] enabled_drivers",
		"host":                      "[DEFAULT] host",
		"nvidia.enabled_vgpu_types": "[gpu_devices] enabled_vgpu_types, [vgpu_TYPE] device_addresses",
		"nvidia.filter_sriov_vfs":   "[gpu_devices] filter_sriov_vfs",
		"nic.enabled_nic_types":     "[nic_devices] enabled_nic_types, [TYPE] physical_device_mappings, function_device_mappings, device_addresses",
		"ssd.device_spec":           "[nvme] device_spec",
		"pci.passthrough_whitelist": "[pci] passthrough_whitelist",
		"mdev.enabled_mdev_types":   "Nova's [devices] enabled_mdev_types, [mdev_TYPE] device_addresses, mdev_class",
	}
}

// optionTable lists the options of Config, those that all drivers have once.
func optionTable(t *testing.T) string {
	names := upstreamNames()
	table := row("option", "upstream's") + "|---|---|\n"
	add := func(option string) {
		table += row(code(option), cmp.Or(names[option], "-"))
		delete(names, option)
	}
	config := reflect.TypeOf(builtin.Config{})
	for i := range config.NumField() {
		field := config.Field(i)
		name := tagOf(field)
		switch {
		case field.Anonymous:
			for j := range field.Type.NumField() {
				add(tagOf(field.Type.Field(j)))
			}
		case field.Type.Kind() != reflect.Pointer:
			add(name)
		default:
			for j := range field.Type.Elem().NumField() {
				if below := field.Type.Elem().Field(j); !below.Anonymous && !slices.Contains([]string{"host", "-"}, tagOf(below)) {
					add(name + "." + tagOf(below))
				}
			}
		}
	}
	if len(names) > 0 {
		t.Errorf("documented options that do not exist: %v", names)
	}
	return table
}

func tagOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
