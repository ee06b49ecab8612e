package fpga_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// bind does what libvirt does to a function of a card before a guest starts, and after it.
func bind(m *sysfs.Memory, address, container, kernelDriver string) (back func()) {
	at := "devices/pci0000:5f/" + address
	class, err := m.Readlink("class/fpga_region/" + container)
	if err != nil {
		panic(err)
	}
	m.Remove("class/fpga_region/" + container)
	m.Remove(at + "/driver")
	m.SetLink(at+"/driver", "../../../bus/pci/drivers/"+kernelDriver)
	return func() {
		m.SetLink("class/fpga_region/"+container, class)
		m.Remove(at + "/driver")
		m.SetLink(at+"/driver", "../../../bus/pci/drivers/dfl-pci")
	}
}

// What the kernel does not show while a guest has a card stays as it was reported, in every layout.
func TestACardThatAGuestHasKeepsItsTraits(t *testing.T) {
	t.Parallel()
	virtual := dflCard("0000:5f:00.0", 1, "2", "b")
	virtual.FPGA.Ports[0].VF, virtual.VFs = 1, &sysfs.VFs{Total: 1, Enabled: 1, Product: "0b31", Driver: "dfl-pci"}
	two := dflCard("0000:5f:00.0", 1, "2", "b")
	two.FPGA.Ports[0].VF, two.VFs = 1, &sysfs.VFs{Total: 2, Enabled: 2, Product: "0b31", Driver: "dfl-pci"}
	two.FPGA.Ports = append(two.FPGA.Ports, sysfs.FPGAPort{Number: 2, AFUID: id("c"), VF: 2})
	for name, tt := range map[string]struct {
		card                sysfs.PCIDevice
		mode                fakecyborg.PlacementMode
		function, container string
	}{
		"whole":                    {dflCard("0000:5f:00.0", 1, "2", "b"), fakecyborg.ModeTree, "0000:5f:00.0", "region1"},
		"whole, nested":            {dflCard("0000:5f:00.0", 1, "2", "b"), fakecyborg.ModeNested, "0000:5f:00.0", "region1"},
		"fixed function":           {dflCard("0000:5f:00.0", 1, "", "b"), fakecyborg.ModeTree, "0000:5f:00.0", "region1"},
		"one of two functions":     {two, fakecyborg.ModeTree, "0000:5f:00.1", "region2"},
		"virtual function":         {virtual, fakecyborg.ModeTree, "0000:5f:00.1", "region2"},
		"virtual function, nested": {virtual, fakecyborg.ModeNested, "0000:5f:00.1", "region2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := drivertest.Tree(t, tt.card)
			w := newWorld(t, tt.mode, nil, map[string]map[string]string{"p": {"resources:FPGA": "1", "trait:CUSTOM_FPGA_FUNCTION_ID_INTEL_" + traitID("b"): "required"}},
				newIntel(t, fpga.Config{}, tree))
			result := w.mustSpawn(instanceA, "p")
			traits := func() []string {
				t.Helper()
				w.report()
				provider, err := w.cloud.Placement.ResourceProvider(result.ARQs[0].DeviceRPUUID)
				if err != nil {
					t.Fatal(err)
				}
				slices.Sort(provider.Traits)
				return provider.Traits
			}
			before := traits()
			back := bind(tree, tt.function, tt.container, "vfio-pci")
			if diff := cmp.Diff(before, traits()); diff != "" {
				t.Errorf("while the guest has it (-before +now):\n%s", diff)
			}
			back()
			if diff := cmp.Diff(before, traits()); diff != "" {
				t.Errorf("after the guest (-before +now):\n%s", diff)
			}
			if err := tree.Program(tt.function, 1, id("e")); err != nil {
				t.Fatal(err)
			}
			if now := strings.Join(traits(), " "); !strings.Contains(now, traitID("e")) || strings.Contains(now, traitID("b")) {
				t.Errorf("with another function: %s", now)
			}
		})
	}
}

// A guest with the function that manages a card could program it for others.
func TestTheFunctionThatManagesACardIsNotOffered(t *testing.T) {
	t.Parallel()
	const engine, user = "0000:5f:00.0", "0000:5f:00.1"
	device := func(address, kernelDriver string, content *sysfs.FPGA) sysfs.PCIDevice {
		return sysfs.PCIDevice{Address: address, Vendor: "8086", Product: "0b30", Class: "1200", Driver: kernelDriver, FPGA: content}
	}
	manages, serves := &sysfs.FPGA{Dev: 5, DFL: true, InterfaceID: id("a")}, &sysfs.FPGA{Dev: 6, DFL: true, Ports: []sysfs.FPGAPort{{Number: 7, AFUID: id("b")}}}
	both := &sysfs.FPGA{Dev: 5, DFL: true, InterfaceID: id("a"), Ports: []sysfs.FPGAPort{{Number: 4, AFUID: id("c")}}}
	other := device(user, "", nil)
	other.Product = "bccf"
	for _, tt := range []struct {
		name     string
		devices  []sysfs.PCIDevice
		damage   string // a file below devices
		want     []string
		problems []string
	}{
		{name: "free", devices: []sysfs.PCIDevice{device(engine, "dfl-pci", manages), device(user, "dfl-pci", serves)}, want: []string{user}},
		{name: "a guest has it", devices: []sysfs.PCIDevice{device(engine, "dfl-pci", manages), device(user, "vfio-pci", nil)}, want: []string{user}},
		{name: "the engine has a port, too", devices: []sysfs.PCIDevice{device(engine, "dfl-pci", both), device(user, "dfl-pci", serves)}, want: []string{user}},
		{name: "and a guest has the user's", devices: []sysfs.PCIDevice{device(engine, "dfl-pci", both), device(user, "vfio-pci", nil)}, want: []string{user}},
		{name: "one function", devices: []sysfs.PCIDevice{device(engine, "dfl-pci", both)}, want: []string{engine}},
		{name: "and another cannot be read", devices: []sysfs.PCIDevice{device(engine, "dfl-pci", both), device(user, "vfio-pci", nil)},
			damage: user + "/vendor", problems: []string{user, engine}},
		{name: "the engine has no kernel driver", devices: []sysfs.PCIDevice{device(engine, "", nil), device(user, "dfl-pci", serves)}, want: []string{user}},
		{name: "no kernel drivers: the second is treated as a virtual function", devices: []sysfs.PCIDevice{device(engine, "", nil), device(user, "", nil)}, want: []string{user}},
		{name: "no kernel drivers, different ids", devices: []sysfs.PCIDevice{device(engine, "", nil), other}},
		{name: "no user", devices: []sysfs.PCIDevice{device(engine, "dfl-pci", manages)}},
		{name: "the user cannot be read", devices: []sysfs.PCIDevice{device(engine, "dfl-pci", manages), device(user, "dfl-pci", serves)},
			damage: user + "/vendor", problems: []string{user}},
		{name: "nor its port", devices: []sysfs.PCIDevice{device(engine, "dfl-pci", manages), device(user, "dfl-pci", serves)},
			damage: user + "/fpga_region/region6/dfl-port.7/afu_id", problems: []string{user}},
		{name: "the engine cannot be read", devices: []sysfs.PCIDevice{device(engine, "", nil), device(user, "vfio-pci", nil)},
			damage: engine + "/vendor", problems: []string{engine, user}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := drivertest.Tree(t, tt.devices...)
			if tt.damage != "" {
				tree.SetFile(pciDir+tt.damage, []byte("?"))
			}
			report := intel(t, fpga.Config{}, tree)
			var offered, problems []string
			for _, d := range report.Devices {
				for _, at := range d.Addresses() {
					offered = append(offered, at.String())
				}
			}
			for _, p := range report.Problems {
				problems = append(problems, p.Address)
			}
			if diff := cmp.Diff(tt.want, offered); diff != "" {
				t.Errorf("offered (-want +got):\n%s\nleft out: %v", diff, report.LeftOut)
			}
			if diff := cmp.Diff(tt.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// An image stays known while guests hide the region that it was written to: others may share the region.
func TestARegionThatGuestsHideKeepsItsImage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		functions  []string // of the image
		properties map[string]string
		hidden     []string // containers
	}{
		"no property":    {[]string{"c"}, nil, []string{"intel-fpga-dev.1", "intel-fpga-dev.2"}},
		"two functions":  {[]string{"c", "d"}, map[string]string{"accel:function_id": id("c")}, []string{"intel-fpga-dev.1"}},
		"nothing hidden": {[]string{"c", "d"}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := drivertest.Tree(t, intelCard(pf, 0, "2", "bb", 2))
			image := []simcloud.Image{{ID: imageID, Data: string(gbs(t, "2", tt.functions...)), Properties: tt.properties}}
			w := newWorld(t, fakecyborg.ModeTree, image, map[string]map[string]string{"p": {"resources:FPGA": "1", "accel:bitstream_id": imageID}},
				newIntel(t, fpga.Config{}, tree))
			w.mustSpawn(instanceA, "p")
			links := make(map[string]string)
			for _, container := range tt.hidden {
				at := "class/fpga/" + container
				class, err := tree.Readlink(at)
				if err != nil {
					t.Fatal(err)
				}
				links[at] = class
				tree.Remove(at)
			}
			w.report()
			for at, class := range links {
				tree.SetLink(at, class)
			}
			w.report()
			if got := w.cloud.Cyborg.Deployables()[0].BitstreamID; got != imageID {
				t.Errorf("bitstream_id %q", got)
			}
			if _, err := w.spawn(instanceB, "p"); err != nil {
				t.Errorf("a guest that shares the region: %v", err)
			}
		})
	}
}

// The ports of a card need not be in the order of its virtual functions. One that a guest hides must not move the others to
// another region.
func TestAHiddenFunctionMovesNoOther(t *testing.T) {
	t.Parallel()
	card := intelCard(pf, 0, "12", "abab", 4)
	card.FPGA.Ports[1].VF, card.FPGA.Ports[2].VF = 3, 2
	tree := drivertest.Tree(t, card)
	if report := intel(t, fpga.Config{}, tree); len(report.Devices) != 1 || len(report.Problems) > 0 {
		t.Fatalf("%+v", report)
	}
	tree.Remove("class/fpga/intel-fpga-dev.2")
	if report := intel(t, fpga.Config{}, tree); len(report.Devices) > 0 || len(report.Problems) != 1 || !errors.Is(report.Problems[0], fpga.ErrRegion) {
		t.Errorf("%v, problems %v", lines(report), report.Problems)
	}
}

// What a guest hides of its card does not set it apart from the others of a flat host, which need the same traits.
func TestAHiddenCardOfAFlatHostIsLikeTheOthers(t *testing.T) {
	t.Parallel()
	for guests := 1; guests <= 2; guests++ {
		tree := drivertest.Tree(t, dflCard("0000:5f:00.0", 1, "2", "b"), dflCard("0000:5f:01.0", 3, "2", "b"))
		w := newWorld(t, fakecyborg.ModeFlat, nil, map[string]map[string]string{"p": {"resources:FPGA": "1"}}, newIntel(t, fpga.Config{}, tree))
		for _, instance := range []string{instanceA, instanceB}[:guests] {
			arqs, err := w.cloud.Cyborg.CreateARQs("p", "project")
			if err != nil {
				t.Fatal(err)
			}
			if err := w.cloud.Cyborg.Bind(t.Context(), fakecyborg.Binding{
				ARQ: arqs[0].UUID, Host: "cn0", Provider: w.cloud.Cyborg.Deployables()[0].ProviderUUID, Instance: instance,
			}); err != nil {
				t.Fatal(err)
			}
		}
		bind(tree, []string{"0000:5f:00.0", "0000:5f:01.0"}[guests-1], []string{"region1", "region3"}[guests-1], "vfio-pci")
		w.report()
		if got := w.cloud.Cyborg.Deployables(); len(got) != 2 {
			t.Errorf("with %d guests the deployables are %v", guests, got)
		}
		if err := w.cloud.Cyborg.StopAgent("cn0"); err != nil { // then the function of the card is not known
			t.Fatal(err)
		}
		if err := w.cloud.Cyborg.StartAgent(t.Context(), "cn0"); err != nil {
			t.Fatal(err)
		}
		w.report()
		if got := w.cloud.Cyborg.Deployables(); len(got) != 2 {
			t.Errorf("with %d guests, after a restart, the deployables are %v", guests, got)
		}
	}
}

// A card with another function than the others of a flat host would be taken out of the cloud, or they would.
func TestACardOfAFlatHostIsProgrammedOnlyAlone(t *testing.T) {
	t.Parallel()
	for _, cards := range []int{1, 2} {
		tree := drivertest.Tree(t, []sysfs.PCIDevice{intelCard("0000:5e:00.0", 0, "1", "b", 0), intelCard("0000:5f:00.0", 1, "1", "b", 0)}[:cards]...)
		w := newWorld(t, fakecyborg.ModeFlat, image(t, "1", "c"), nil, newIntel(t, fpga.Config{}, tree))
		err := w.cloud.Cyborg.ProgramDeployable(t.Context(), w.cloud.Cyborg.Deployables()[0].UUID, imageID)
		const refused = "cannot have another function than cn0_0000:5f:00.0: on a flat host all devices need the same traits"
		if (err != nil) != (cards > 1) || err != nil && !strings.Contains(err.Error(), refused) {
			t.Errorf("%d cards: error %v", cards, err)
		}
		w.report()
		if got := w.cloud.Cyborg.Deployables(); len(got) != cards {
			t.Errorf("of %d cards remain: %v", cards, got)
		}
	}
}

// The memory that the regions of a card share stays on the provider of the card while a guest hides its region.
func TestTheMemoryOfAHiddenCardStaysWhereItIs(t *testing.T) {
	t.Parallel()
	const class = "CUSTOM_ACCELERATOR_MEMORY_DDR4"
	tree := drivertest.Tree(t, dflCard("0000:5f:00.0", 1, "2", "b"))
	config := fpga.Config{Policy: driver.Policy{LocalMemory: []driver.LocalMemory{{Address: "0000:5f:00.0", Type: "DDR4", MiB: 4096, Shared: true}}}}
	w := newWorld(t, fakecyborg.ModeNested, nil, map[string]map[string]string{"p": {"resources:FPGA": "1"}}, newIntel(t, config, tree))
	w.mustSpawn(instanceA, "p")
	where := func() (names []string) {
		for _, p := range w.cloud.Placement.ResourceProviders() {
			if p.Inventories[class].Total > 0 {
				names = append(names, p.Name)
			}
		}
		return names
	}
	before := where()
	bind(tree, "0000:5f:00.0", "region1", "vfio-pci")
	w.report()
	if diff := cmp.Diff(before, where()); diff != "" || len(before) != 1 {
		t.Errorf("the providers of the memory (-before +now):\n%s", diff)
	}
}
