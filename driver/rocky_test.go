package driver_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
)

// drawing is the FPGA of the specification's drawing: two regions, two functions in the
// first. The second card is of the same product, with other PCI ids behind it.
const drawing = `{
	"0000:5e:00.0": {"type": "FPGA", "vendor": "Intel", "product": "PAC Arria10", "regions": [
		{"region-type-uuid": "` + regionUUID + `", "bitstream-id": null,
		 "function-uuid": ["` + functionUUID + `", "f7df405c-bd7a-cf72-22f1-44b0b93acd18"], "pci-functions": ["0000:5e:00.1", "0000:5e:00.2"]},
		{"region-type-uuid": "aaaaaaaabbbbccccddddeeeeeeeeeeee", "pci-functions": ["0000:5e:00.3"]}]},
	"0000:5f:00.0": {"type": "FPGA", "vendor": "Intel", "product": "PAC Arria10", "pr_num": 1, "regions": [
		{"region-type-uuid": "` + regionUUID + `", "bitstream-id": "cccccccc-0000-4000-8000-000000000001", "function-uuid": null}]},
	"0000:3b:00.0": {"type": "GPU", "vendor": "AMD", "product": "MI210", "regions": null}
}`

func TestADictionaryBecomesDevicesAndIsWrittenAgain(t *testing.T) {
	t.Parallel()
	dictionary, err := driver.ParseRocky([]byte(drawing))
	if err != nil {
		t.Fatal(err)
	}
	devices, err := dictionary.Devices("cn0", driver.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, d := range devices {
		if err := d.Validate(); err != nil {
			t.Error(err)
		}
		for _, p := range d.Deployables {
			got[p.Name] = append([]string{p.ResourceClass()}, p.Traits()...)
		}
	}
	region, function := "0D4BCD1A_6A0E_4F1F_9D6E_0FD1A9A0B5C4", "D8424DC4_A4A3_C413_F89E_433683F9040B"
	const rc, owner, product, programmable = "CUSTOM_ACCELERATOR_FPGA", "OWNER_CYBORG", "CUSTOM_FPGA_INTEL_PAC_ARRIA10", "CUSTOM_PROGRAMMABLE"
	want := map[string][]string{
		"cn0_0000:3b:00.0": {"CUSTOM_ACCELERATOR_GPU", owner, "CUSTOM_GPU_AMD_MI210"},
		"cn0_0000:5e:00.0_region0": {rc, owner, product, "CUSTOM_FPGA_INTEL_REGION_" + region, "CUSTOM_FPGA_INTEL_FUNCTION_" + function,
			"CUSTOM_FPGA_INTEL_FUNCTION_F7DF405C_BD7A_CF72_22F1_44B0B93ACD18", programmable},
		"cn0_0000:5e:00.0_region1": {rc, owner, product, "CUSTOM_FPGA_INTEL_REGION_AAAAAAAABBBBCCCCDDDDEEEEEEEEEEEE", programmable},
		"cn0_0000:5f:00.0":         {rc, owner, product, "CUSTOM_FPGA_INTEL_REGION_" + region, programmable},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deployables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(dictionary, driver.RockyOf(devices), cmp.Transformer("lower", strings.ToLower)); diff != "" {
		t.Errorf("devices written as a dictionary (-want +got):\n%s", diff)
	}
	text, err := json.Marshal(dictionary)
	if err != nil {
		t.Fatal(err)
	}
	again, err := driver.ParseRocky(text)
	if diff := cmp.Diff(dictionary, again); diff != "" || err != nil {
		t.Errorf("read again: %v (-want +got):\n%s", err, diff)
	}
}

func TestAbsentKeysAreNull(t *testing.T) {
	t.Parallel()
	entry := func(region string) driver.RockyDictionary {
		d, err := driver.ParseRocky([]byte(`{"0000:5e:00.0": {"type": "FPGA", "vendor": "v", "product": "p", "regions": [` + region + `]}}`))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	nulls := entry(`{"region-type-uuid": null, "bitstream-id": null, "function-uuid": null}`)
	if diff := cmp.Diff(entry(`{}`), nulls); diff != "" {
		t.Errorf("(-absent +null):\n%s", diff)
	}
}

func TestTheShapesOfOtherSpecificationsCanBeRead(t *testing.T) {
	t.Parallel()
	for _, traits := range [][]string{
		{"CUSTOM_FPGA_REGION_INTEL_AAAAAAAABBBBCCCCDDDDEEEEEEEEEEEE", "CUSTOM_FPGA_FUNCTION_ID_INTEL_D8424DC4A4A3C413F89E433683F9040B"},
		{"CUSTOM_FPGA_INTEL_REGION_AAAAAAAABBBBCCCCDDDDEEEEEEEEEEEE", "CUSTOM_FPGA_INTEL_FUNCTION_D8424DC4A4A3C413F89E433683F9040B"},
	} {
		at := driver.PCIAddress{Bus: 0x5e}
		d := driver.Device{Type: "FPGA", Vendor: "0x8086", Model: "m", ControlPath: at.ControlPath(), Deployables: []driver.Deployable{{
			Attributes: driver.Attributes("FPGA", traits...), AttachHandles: []driver.AttachHandle{{Type: "PCI", Info: at.Info()}},
		}}}
		want := driver.RockyDictionary{"0000:5e:00.0": {Type: "FPGA", Vendor: "0x8086", Product: "m", Regions: []driver.RockyRegion{{
			RegionType: "aaaaaaaabbbbccccddddeeeeeeeeeeee", Function: driver.RockyFunctions{"d8424dc4a4a3c413f89e433683f9040b"},
		}}}}
		if diff := cmp.Diff(want, driver.RockyOf([]driver.Device{d})); diff != "" {
			t.Errorf("%v (-want +got):\n%s", traits, diff)
		}
	}
}

func TestADictionaryIsChecked(t *testing.T) {
	t.Parallel()
	device := func(product, regions string) string {
		return `{"type": "FPGA", "vendor": "Intel", "product": "` + product + `", "regions": [` + regions + `]}`
	}
	typed := `{"region-type-uuid": "` + regionUUID + `"}`
	for want, text := range map[string]string{
		"cannot unmarshal":                              `[]`,
		"bad PCI address":                               `{"5e:00.0": ` + device("p", "") + `}`,
		`unknown type "TPU"`:                            `{"0000:5e:00.0": {"type": "TPU", "vendor": "v", "product": "p"}}`,
		"empty part":                                    `{"0000:5e:00.0": {"type": "FPGA", "vendor": "v"}}`,
		"'.' is not allowed":                            `{"0000:5e:00.0": ` + device("a.b", "") + `}`,
		"neither a uuid nor":                            `{"0000:5e:00.0": ` + device("p", `{"region-type-uuid": "x"}`) + `}`,
		`bitstream-id "y"`:                              `{"0000:5e:00.0": ` + device("p", `{"bitstream-id": "y"}`) + `}`,
		"neither a string nor a list":                   `{"0000:5e:00.0": ` + device("p", `{"function-uuid": 5}`) + `}`,
		"type " + regionUUID + " is one of product":     `{"0000:5e:00.0": ` + device("p", typed) + `, "0000:5f:00.0": ` + device("q", typed) + `}`,
		"cannot be given to several regions":            `{"0000:5e:00.0": ` + device("p", `{}, {}`) + `}`,
		"function 0000:5e:00.1 is given to two regions": `{"0000:5e:00.0": ` + device("p", `{"pci-functions": ["0000:5e:00.1"]}, {"pci-functions": ["0000:5e:00.1"]}`) + `}`,
		`function-uuid "urn:uuid:`:                      `{"0000:5e:00.0": ` + device("p", `{"function-uuid": "urn:uuid:`+regionUUID+`"}`) + `}`,
	} {
		d, err := driver.ParseRocky([]byte(text))
		if !errors.Is(err, driver.ErrDictionary) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if _, err := d.Devices("h", driver.Policy{}); len(d) > 0 && err == nil {
			t.Errorf("%s: devices are made of it", text)
		}
	}
}

func FuzzRockyDictionary(f *testing.F) {
	f.Add([]byte(drawing))
	f.Add([]byte(`{"0000:5e:00.0": {"type": "GPU", "vendor": "a", "product": "b", "regions": [{"function-uuid": ["x"]}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := driver.ParseRocky(data)
		if err != nil {
			if !errors.Is(err, driver.ErrDictionary) {
				t.Errorf("%v does not wrap ErrDictionary", err)
			}
			return
		}
		devices, err := d.Devices("h", driver.Policy{})
		if err != nil && !errors.Is(err, driver.ErrDictionary) {
			t.Errorf("%v does not wrap ErrDictionary", err)
		}
		driver.RockyOf(devices)
	})
}
