package driver_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
)

// fpga is a device as upstream's intel driver reports one, control path and handle as
// the JSON text that its objects carry.
const fpga = `{
	"vendor": "0x8086", "model": "miss_model_info", "type": "FPGA",
	"std_board_info": "{\"product_id\": \"0x09c4\"}", "vendor_board_info": "miss_vb_info",
	"controlpath_id": {"cpid_type": "PCI", "cpid_info": "{\"bus\": \"5e\", \"device\": \"00\", \"domain\": \"0000\", \"function\": \"0\"}"},
	"deployable_list": [{
		"name": "compute1_0000:5e:00.0", "num_accelerators": 1, "driver_name": "intel",
		"attribute_list": [{"key": "rc", "value": "FPGA"}, {"key": "trait0", "value": "CUSTOM_FPGA_INTEL"}, {"key": "note", "value": "x"}],
		"attach_handle_list": [{"attach_type": "PCI", "attach_info": {"domain": "0000", "bus": "5e", "device": "00", "function": "0"}, "in_use": false}]
	}]
}`

func decode(t *testing.T, text string) driver.Device {
	t.Helper()
	var d driver.Device
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestADeviceInUpstreamsFormDecodes(t *testing.T) {
	t.Parallel()
	d := decode(t, fpga)
	if err := d.Validate(); err != nil {
		t.Errorf("Validate() = %v", err)
	}
	p := d.Deployables[0]
	if p.Class != "FPGA" || !cmp.Equal(p.Traits, []string{"CUSTOM_FPGA_INTEL"}) {
		t.Errorf("resource class %q, traits %q", p.Class, p.Traits)
	}
	if d.ControlPath.Key() != p.AttachHandles[0].Key() {
		t.Errorf("text and object differ: %s and %s", d.ControlPath.Key(), p.AttachHandles[0].Key())
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, decode(t, string(text))); diff != "" {
		t.Errorf("written and read again (-want +got):\n%s", diff)
	}
}

func TestInfoRefusesWhatIsNoObjectOfStrings(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`[]`, `"[]"`, `"x"`, `{"bus": 5}`, `"{\"bus\": 5}"`, `"{} {}"`, `5`} {
		var info driver.Info
		if err := json.Unmarshal([]byte(text), &info); err == nil {
			t.Errorf("%s decodes to %v", text, info)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	t.Parallel()
	d := decode(t, fpga)
	c := d.Clone()
	c.ControlPath.Info["bus"] = "ff"
	c.Deployables[0].Name = "other"
	c.Deployables[0].Traits[0], c.Deployables[0].Attributes[0].Value = "CUSTOM_X", "y"
	c.Deployables[0].AttachHandles[0].Info["bus"] = "ff"
	if diff := cmp.Diff(decode(t, fpga), d); diff != "" {
		t.Errorf("the original has changed (-want +got):\n%s", diff)
	}
}

func TestValidateNamesTheFault(t *testing.T) {
	t.Parallel()
	deployable := func(change func(*driver.Deployable)) func(*driver.Device) {
		return func(d *driver.Device) { change(&d.Deployables[0]) }
	}
	handle := func(h driver.AttachHandle) func(*driver.Device) {
		return deployable(func(p *driver.Deployable) { p.AttachHandles[0] = h })
	}
	for want, change := range map[string]func(*driver.Device){
		`type "TPU"`:                                     func(d *driver.Device) { d.Type = "TPU" },
		"no vendor":                                      func(d *driver.Device) { d.Vendor = "" },
		"no control path":                                func(d *driver.Device) { d.ControlPath.Info = nil },
		`name "compute1_0000:5e:00.0" twice`:             func(d *driver.Device) { d.Deployables = append(d.Deployables, d.Deployables[0]) },
		"name has 0 characters":                          deployable(func(p *driver.Deployable) { p.Name = "" }),
		"name has 201 characters":                        deployable(func(p *driver.Deployable) { p.Name = strings.Repeat("x", 201) }),
		"num_accelerators 0, want":                       deployable(func(p *driver.Deployable) { p.NumAccelerators = 0 }),
		"num_accelerators -1, want":                      deployable(func(p *driver.Deployable) { p.NumAccelerators = -1 }),
		"num_accelerators 2 with 1":                      deployable(func(p *driver.Deployable) { p.NumAccelerators = 2 }),
		`resource class "" is empty`:                     deployable(func(p *driver.Deployable) { p.Class = "" }),
		`resource class "GPU" is neither`:                deployable(func(p *driver.Deployable) { p.Class = "GPU" }),
		`character 'f' is not allowed`:                   deployable(func(p *driver.Deployable) { p.Traits[0] = "fast" }),
		`key "rc" is empty, reserved`:                    deployable(func(p *driver.Deployable) { p.Attributes[0].Key = "rc" }),
		`type "USB" is not PCI`:                          handle(driver.AttachHandle{Type: "USB"}),
		`PCI: driver: bad PCI address: domain ""`:        handle(driver.AttachHandle{Type: driver.HandlePCI}),
		"MDEV without asked_type":                        handle(driver.AttachHandle{Type: driver.HandleMDEV}),
		"function CUSTOM_FPGA_FUNCTION_X is not a trait": deployable(func(p *driver.Deployable) { p.AttachHandles[0].Functions = []string{"CUSTOM_FPGA_FUNCTION_X"} }),
		`"function":"0"} twice`:                          deployable(func(p *driver.Deployable) { p.AttachHandles = append(p.AttachHandles, p.AttachHandles[0]) }),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			d := decode(t, fpga)
			change(&d)
			err := d.Validate()
			if !errors.Is(err, driver.ErrInvalidDevice) || !strings.Contains(err.Error(), want) {
				t.Errorf("Validate() = %v, want %q in it", err, want)
			}
		})
	}
}

func TestAnMdevHandleNamesItsDevice(t *testing.T) {
	t.Parallel()
	const id = "91ac1606-427e-44bb-8233-f4ff4bf3d241"
	card := driver.Info{"asked_type": "nvidia-35", "vgpu_mark": "nvidia-35_0", "domain": "0000", "bus": "84", "device": "00", "function": "0"}
	for _, tt := range []struct {
		name string
		info driver.Info
		want driver.Mdev
	}{
		{"on a PCI device", card, driver.Mdev{UUID: id, Parent: "0000:84:00.0", Type: "nvidia-35"}},
		{"on another", driver.Info{"asked_type": "mtty-1", "parent": "mtty"}, driver.Mdev{UUID: id, Parent: "mtty", Type: "mtty-1"}},
	} {
		got, err := driver.AttachHandle{Type: driver.HandleMDEV, Info: tt.info}.Mdev(id)
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	if _, err := (driver.AttachHandle{Type: driver.HandlePCI, Info: card}).Mdev(id); !errors.Is(err, driver.ErrHandle) {
		t.Errorf("a PCI handle: %v", err)
	}
}

func TestAHandleIsManagedOrNot(t *testing.T) {
	t.Parallel()
	for value, ok := range map[string]bool{"true": true, "false": true, "": false, "yes": false, "False": false} {
		h := driver.AttachHandle{Type: driver.HandlePCI, Info: driver.PCIAddress{Bus: 0xc8}.Info()}
		h.Info[driver.FieldManaged] = value
		if err := h.Check(); (err == nil) != ok || err != nil && !errors.Is(err, driver.ErrHandle) {
			t.Errorf("managed %q: %v", value, err)
		}
	}
}

func TestMdevNamesCannotLeaveTheirDirectory(t *testing.T) {
	t.Parallel()
	good := driver.Mdev{UUID: "91ac1606-427e-44bb-8233-f4ff4bf3d241", Parent: "0000:84:00.0", Type: "nvidia-35"}
	if err := good.Validate(); err != nil {
		t.Errorf("Validate() = %v", err)
	}
	for name, change := range map[string]func(*driver.Mdev){
		"no uuid":        func(m *driver.Mdev) { m.UUID = "" },
		"a urn":          func(m *driver.Mdev) { m.UUID = "urn:uuid:" + good.UUID },
		"without hyphen": func(m *driver.Mdev) { m.UUID = strings.ReplaceAll(good.UUID, "-", "") },
		"parent above":   func(m *driver.Mdev) { m.Parent = ".." },
		"parent a path":  func(m *driver.Mdev) { m.Parent = "a/b" },
		"no type":        func(m *driver.Mdev) { m.Type = "" },
		"type a path":    func(m *driver.Mdev) { m.Type = "../x" },
	} {
		m := good
		change(&m)
		if err := m.Validate(); !errors.Is(err, driver.ErrHandle) {
			t.Errorf("%s: Validate() = %v, want ErrHandle", name, err)
		}
	}
}

func TestClassAndTraitsAreAttributesOfCyborg(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, driver string
		want         []driver.Attribute
	}{
		{"of a driver", "intel", []driver.Attribute{{Key: "rc", Value: "FPGA"}, {Key: "trait0", Value: "CUSTOM_A"}, {Key: "trait1", Value: "CUSTOM_B"}, {Key: "note", Value: "x"}}},
		{"of the fake driver", "fake", []driver.Attribute{{Key: "traits1", Value: "CUSTOM_A"}, {Key: "traits2", Value: "CUSTOM_B"}, {Key: "rc", Value: "FPGA"}, {Key: "note", Value: "x"}}},
	} {
		d := driver.Deployable{DriverName: tt.driver, Class: "FPGA", Traits: []string{"CUSTOM_A", "CUSTOM_B"}, Attributes: []driver.Attribute{{Key: "note", Value: "x"}}}
		list := d.AttributeList()
		if diff := cmp.Diff(tt.want, list); diff != "" {
			t.Errorf("%s: attributes (-want +got):\n%s", tt.name, diff)
		}
		got := driver.Deployable{DriverName: tt.driver}
		got.SetAttributeList(list)
		if diff := cmp.Diff(d, got); diff != "" {
			t.Errorf("%s: read again (-want +got):\n%s", tt.name, diff)
		}
	}
	for _, text := range []string{
		`{"class": "FPGA", "attribute_list": [{"key": "rc", "value": "FPGA"}]}`,
		`{"traits": ["CUSTOM_A"], "attribute_list": [{"key": "trait0", "value": "CUSTOM_A"}]}`,
		`{"clas": "FPGA"}`,
	} {
		var d driver.Deployable
		if err := json.Unmarshal([]byte(text), &d); err == nil {
			t.Errorf("%s decodes to %+v", text, d)
		}
	}
}
