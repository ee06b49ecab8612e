package fpga_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// gbs is an image for regions of a kind, with functions.
func gbs(t testing.TB, kind string, functions ...string) []byte {
	t.Helper()
	var b fpga.Bitstream
	if kind != "" {
		b.RegionType = id(kind)
	}
	for _, f := range functions {
		b.Functions = append(b.Functions, id(f))
	}
	return marshal(t, b)
}

// marshal writes an image as Intel's packager does.
func marshal(t testing.TB, b fpga.Bitstream) []byte {
	t.Helper()
	var clusters []map[string]any
	for _, id := range b.Functions {
		clusters = append(clusters, map[string]any{"total-contexts": 1, "accelerator-type-uuid": id})
	}
	document, err := json.Marshal(map[string]any{"version": 1, "afu-image": map[string]any{
		"magic-no": 488605312, "interface-uuid": b.RegionType, "accelerator-clusters": clusters,
	}})
	if err != nil {
		t.Fatal(err)
	}
	image := binary.LittleEndian.AppendUint32([]byte("XeonFPGA\xb7GBSv001"), uint32(len(document)))
	return append(append(image, document...), "bits"...)
}

// path is the control path of an address.
func path(t testing.TB, address string) driver.ControlPath {
	t.Helper()
	a, err := driver.ParsePCIAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	return a.ControlPath()
}

// loaded returns the functions of each deployable after the next discovery.
func loaded(report driver.Report) map[string]string {
	list := make(map[string]string)
	for _, d := range report.Devices {
		for _, p := range d.Deployables {
			var functions []string
			for _, trait := range p.Traits {
				if id, ok := strings.CutPrefix(trait, "CUSTOM_FPGA_FUNCTION_ID_INTEL_"); ok {
					functions = append(functions, strings.ToLower(id[:1]))
				}
			}
			list[strings.TrimPrefix(p.Name, "cn0_"+pf)] = strings.Join(functions, "")
		}
	}
	return list
}

func TestTheNextDiscoveryReportsTheProgrammedFunction(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		tree       *sysfs.Memory
		config     fpga.Config
		deployable string
		kind       string
		functions  []string
		want       map[string]string
	}{
		{"a whole card", drivertest.Tree(t, intelCard(pf, 0, "1", "a", 0)), fpga.Config{}, "", "1", []string{"c"}, map[string]string{"": "c"}},
		{"an empty card", drivertest.Tree(t, intelCard(pf, 0, "1", " ", 0)), fpga.Config{}, "", "1", []string{"c"}, map[string]string{"": "c"}},
		{"virtual functions", drivertest.Tree(t, intelCard(pf, 0, "1", "ab", 2)), fpga.Config{}, "", "1", []string{"c"}, map[string]string{"": "c"}},
		{"two functions", drawing(t), fpga.Config{}, "", "1", []string{"c", "d"}, map[string]string{"_region0": "cd"}},
		{"the region that fits", drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 2)), fpga.Config{}, "", "2", []string{"c"}, map[string]string{"_region0": "a", "_region1": "c"}},
		{"the region of the deployable", drivertest.Tree(t, intelCard(pf, 0, "1111", "abab", 4)), fpga.Config{}, "cn0_" + pf + "_region2", "1", []string{"c"},
			map[string]string{"_region0": "a", "_region1": "b", "_region2": "c", "_region3": "b"}},
		{"for any region", drivertest.Tree(t, intelCard(pf, 0, "1", "a", 0)), fpga.Config{}, "cn0_" + pf, "", []string{"c"}, map[string]string{"": "c"}},
		{"a region of a whole card", drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 0)), fpga.Config{}, "cn0_" + pf, "2", []string{"c"}, map[string]string{"": "ac"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := newIntel(t, tt.config, tt.tree).Program(t.Context(), path(t, pf), tt.deployable, gbs(t, tt.kind, tt.functions...)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, loaded(intel(t, tt.config, tt.tree))); diff != "" {
				t.Errorf("functions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARefusedImageChangesNothing(t *testing.T) {
	t.Parallel()
	no := false
	preprogrammed := fpga.Config{Devices: []fpga.DeviceConfig{{Address: pf, Regions: []fpga.RegionConfig{{Region: 1, Programmable: &no}}}}}
	two := func() *sysfs.Memory { return drivertest.Tree(t, intelCard(pf, 0, "12", "ab", 2)) }
	tests := []struct {
		name       string
		tree       *sysfs.Memory
		config     fpga.Config
		at         string
		deployable string
		image      []byte
		want       error
		text       string
	}{
		{"nothing there", two(), fpga.Config{}, "0000:99:00.0", "", gbs(t, "1", "c"), fpga.ErrNoDevice, "0000:99:00.0"},
		{"a virtual function", two(), fpga.Config{}, "0000:5e:00.1", "", gbs(t, "1", "c"), fpga.ErrNoDevice, "0000:5e:00.1"},
		{"another vendor's", drivertest.Tree(t, inspurCard(pf)), fpga.Config{}, pf, "", gbs(t, "1", "c"), fpga.ErrNoDevice, pf},
		{"for another region", two(), fpga.Config{}, pf, "", gbs(t, "3", "c"), fpga.ErrBitstream, id("3")},
		{"for the other region", two(), fpga.Config{}, pf, "cn0_" + pf + "_region1", gbs(t, "1", "c"), fpga.ErrBitstream, id("2")},
		{"for two regions", drivertest.Tree(t, intelCard(pf, 0, "11", "ab", 2)), fpga.Config{}, pf, "", gbs(t, "1", "c"), fpga.ErrRegion, "regions 0 and 1"},
		{"for any of two", two(), fpga.Config{}, pf, "", gbs(t, "", "c"), fpga.ErrRegion, "regions 0 and 1"},
		{"no such deployable", two(), fpga.Config{}, pf, "cn0_x", gbs(t, "1", "c"), fpga.ErrRegion, "cn0_x"},
		{"the card, which is divided", two(), fpga.Config{}, pf, "cn0_" + pf, gbs(t, "1", "c"), fpga.ErrRegion, "no deployable"},
		{"another host's deployable", two(), fpga.Config{}, pf, "cn1_" + pf + "_region0", gbs(t, "1", "c"), fpga.ErrRegion, "cn1_"},
		{"pre-programmed region", two(), preprogrammed, pf, "cn0_" + pf + "_region1", gbs(t, "2", "c"), fpga.ErrPreprogrammed, pf},
		{"pre-programmed region by type", two(), preprogrammed, pf, "", gbs(t, "2", "c"), fpga.ErrPreprogrammed, "region 1"},
		{"pre-programmed card", two(), fpga.Config{Programmable: &no}, pf, "", gbs(t, "1", "c"), fpga.ErrPreprogrammed, pf},
		{"functions given away one by one", drawing(t), fpga.Config{SeparateFunctions: true}, pf, "cn0_0000:5e:00.1", gbs(t, "1", "c"), fpga.ErrRegion, "one by one"},
		{"empty image", two(), fpga.Config{}, pf, "", nil, fpga.ErrBitstream, "neither"},
		{"no image", two(), fpga.Config{}, pf, "", []byte("bits"), fpga.ErrBitstream, "neither"},
		{"no port", drivertest.Tree(t, intelCard(pf, 0, "1", "", 2)), fpga.Config{}, pf, "", gbs(t, "1", "c"), fpga.ErrRegion, "no port"},
		{"unclear regions", drivertest.Tree(t, intelCard(pf, 0, "12", "abc", 3)), fpga.Config{}, pf, "", gbs(t, "1", "c"), fpga.ErrRegion, "it is not known which is in which"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newIntel(t, tt.config, tt.tree)
			before, _ := d.Discover(t.Context())
			err := d.Program(t.Context(), path(t, tt.at), tt.deployable, tt.image)
			if !errors.Is(err, tt.want) || !errors.Is(err, driver.ErrNotWritten) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %v about %s", err, tt.want, tt.text)
			}
			after, _ := d.Discover(t.Context())
			if diff := cmp.Diff(loaded(before), loaded(after)); diff != "" {
				t.Errorf("functions changed (-before +after):\n%s", diff)
			}
		})
	}
	d := newIntel(t, fpga.Config{}, two())
	if err := d.Program(t.Context(), driver.ControlPath{Type: "PCI", Info: driver.Info{"bus": "x"}}, "", nil); !errors.Is(err, fpga.ErrNoDevice) {
		t.Errorf("garbled control path: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Program(ctx, path(t, pf), "", gbs(t, "1", "c")); !errors.Is(err, context.Canceled) || !errors.Is(err, driver.ErrNotWritten) {
		t.Errorf("cancelled: %v", err)
	}
	unread := two()
	deny(t, unread, "bus/pci/devices")
	for name, d := range map[string]driver.Programmer{
		"intel": newIntel(t, fpga.Config{}, unread), "xilinx": programmer(t)(fpga.NewXilinx(fpga.Config{Host: "cn0"}, unread)),
	} {
		if err := d.Program(t.Context(), path(t, pf), "", gbs(t, "1", "c")); !errors.Is(err, driver.ErrNotWritten) {
			t.Errorf("%s: a bus that cannot be read: %v", name, err)
		}
	}
}

// dirTree hides that a tree is in memory.
type dirTree struct{ driver.Tree }

func TestHardwareNeedsALoader(t *testing.T) {
	t.Parallel()
	tree := dirTree{drivertest.Tree(t, append(alveo("0000:3b:00"), intelCard(pf, 0, "12", "ab", 2))...)}
	for name, d := range map[string]driver.Programmer{
		pf: newIntel(t, fpga.Config{}, tree), "0000:3b:00.0": programmer(t)(fpga.NewXilinx(fpga.Config{Host: "cn0"}, tree)),
	} {
		if err := d.Program(t.Context(), path(t, name), "", gbs(t, "2", "c")); !errors.Is(err, fpga.ErrNoLoader) || !strings.Contains(err.Error(), "--bitstream-loader") {
			t.Errorf("%s without a loader: %v", name, err)
		}
	}
}

func TestProgrammingAXilinxCard(t *testing.T) {
	t.Parallel()
	no := false
	broken := drivertest.Tree(t, alveo("0000:3b:00")...)
	broken.SetFile(pciDir+"0000:3b:00.1/boot_vga", []byte("x"))
	swapped := alveo("0000:3b:00")
	swapped[0].Driver, swapped[1].Driver = "xocl", "xclmgmt"
	for _, tt := range []struct {
		name   string
		tree   *sysfs.Memory
		config fpga.Config
		at     string
		image  string
		want   error
	}{
		{name: "works", tree: drivertest.Tree(t, alveo("0000:3b:00")...), at: "0000:3b:00.0", image: "x"},
		{name: "nothing there", tree: sysfs.NewMemory(), at: "0000:3b:00.0", image: "x", want: fpga.ErrNoDevice},
		{name: "not the first function", tree: drivertest.Tree(t, alveo("0000:3b:00")...), at: "0000:3b:00.1", image: "x", want: fpga.ErrNoDevice},
		{name: "half a card", tree: broken, at: "0000:3b:00.0", image: "x", want: fpga.ErrNoDevice},
		{name: "pre-programmed", tree: drivertest.Tree(t, alveo("0000:3b:00")...), config: fpga.Config{Programmable: &no}, at: "0000:3b:00.0", image: "x", want: fpga.ErrPreprogrammed},
		{name: "empty", tree: drivertest.Tree(t, alveo("0000:3b:00")...), at: "0000:3b:00.0", want: fpga.ErrBitstream},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.config.Host = "cn0"
			d := programmer(t)(fpga.NewXilinx(tt.config, tt.tree))
			if err := d.Program(t.Context(), path(t, tt.at), "", []byte(tt.image)); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
	d := programmer(t)(fpga.NewXilinx(fpga.Config{Host: "cn0", BitstreamLoader: self(t)}, drivertest.Tree(t, swapped...)))
	if err := d.Program(t.Context(), path(t, "0000:3b:00.0"), "cn0_0000:3b:00.0", []byte(`{"loader": {"tells": true}}`)); err == nil || !strings.HasSuffix(err.Error(),
		`{"address":"0000:3b:00.1","controlpath_id":{"cpid_info":{"bus":"3b","device":"00","domain":"0000","function":"0"},"cpid_type":"PCI"},`+
			`"deployable":"cn0_0000:3b:00.0","host":"cn0","region":0,"vendor":"xilinx"}`) {
		t.Errorf("error %v, want the management function", err)
	}
	if err := d.Program(t.Context(), driver.ControlPath{}, "", []byte("x")); !errors.Is(err, fpga.ErrNoDevice) {
		t.Errorf("no control path: %v", err)
	}
}

func TestImagesThatAreNone(t *testing.T) {
	t.Parallel()
	whole := string(gbs(t, "1", "a", "b"))
	document := `{"version": 1, "afu-image": {"interface-uuid": "11111111-1111-1111-1111-111111111111", "accelerator-clusters": [{"accelerator-type-uuid": "` + id("A") + `"}]}}`
	if b, err := fpga.ParseBitstream([]byte(document)); err != nil || b.RegionType != id("1") || !slices.Equal(b.Functions, []string{id("a")}) {
		t.Errorf("the document alone: %+v, %v", b, err)
	}
	for name, image := range map[string]string{
		"empty": "", "text": "bits", "the mark": whole[:16], "in the length": whole[:18], "in the document": whole[:40],
		"a length of four gigabytes": whole[:16] + "\xff\xff\xff\xff" + whole[20:],
		"no function":                `{"afu-image": {}}`,
		"an invalid function":        strings.ReplaceAll(document, id("A"), "gzip"),
		"an invalid region":          strings.ReplaceAll(document, "11111111-1111-1111-1111-111111111111", "x"),
		"another type":               `{"afu-image": 7}`,
	} {
		if _, err := fpga.ParseBitstream([]byte(image)); !errors.Is(err, fpga.ErrBitstream) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
