package driver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/strictjson"
)

// The words that Cyborg stores.
const (
	// Device types (the column devices.type, the last three since 2026.2), and HPTS, which the
	// high precision time card drivers of Cyborg's specifications report.
	TypeGPU    = "GPU"
	TypeFPGA   = "FPGA"
	TypeAICHIP = "AICHIP"
	TypeQAT    = "QAT"
	TypeNIC    = "NIC"
	TypeSSD    = "SSD"
	TypeMDEV   = "MDEV"
	TypePCI    = "PCI"
	TypeNVME   = "NVME"
	TypeHPTS   = "HPTS"

	// Types of attach handles; no other value survives a bind.
	HandlePCI     = "PCI"
	HandleMDEV    = "MDEV"
	HandleTestPCI = "TEST_PCI"

	// FieldManaged of the information of a PCI handle is "false" for a function that must keep its
	// kernel driver, such as a vfio variant driver: libvirt does not bind it to vfio-pci. Absent is
	// "true", and drivers report no other value. Nova up to release 34 ignores it.
	FieldManaged = "managed"

	// Types of control paths. ControlPathPCI is the only one that upstream's drivers report;
	// ControlPathMdevParent is for a parent of mediated devices that is not on PCI, such as mtty.
	ControlPathPCI        = "PCI"
	ControlPathMdevParent = "MDEV_PARENT"

	// TraitOwnerCyborg says that Cyborg offers a device to guests; Nova's own inventories
	// carry OWNER_NOVA.
	TraitOwnerCyborg = "OWNER_CYBORG"
	// TraitProgrammable is on every region that may be programmed.
	TraitProgrammable = "CUSTOM_PROGRAMMABLE"
)

// Device is one piece of hardware as a driver reports it, with everything that hangs
// below it. The JSON names are those of upstream's driver objects, so a device can be
// given in a file exactly as a driver would report it.
type Device struct {
	Vendor string `json:"vendor"`
	Model  string `json:"model"`
	// Type is one of the Type constants.
	Type string `json:"type"`
	// StdBoardInfo and VendorBoardInfo are opaque text, JSON by custom.
	StdBoardInfo    string `json:"std_board_info,omitempty"`
	VendorBoardInfo string `json:"vendor_board_info,omitempty"`
	// Stub marks a device that the conductor ignores altogether.
	Stub bool `json:"stub,omitempty"`
	// Programmable is false for an FPGA that comes with its function and is never
	// to be programmed, with all its regions that do not say otherwise. Nil is true.
	Programmable *bool        `json:"programmable,omitempty"`
	ControlPath  ControlPath  `json:"controlpath_id"`
	Deployables  []Deployable `json:"deployable_list"`
	// Resources are amounts that all deployables share, by resource class: local memory
	// in MiB. They are on the provider of the device. Upstream does not have this field.
	Resources map[string]int `json:"resources,omitempty"`
}

// ProductID returns the product id in the board information, where upstream's drivers put
// it, in lower case and without 0x. It is empty if the driver does not report one.
func (d Device) ProductID() string {
	var board struct {
		ProductID string `json:"product_id"`
		DeviceID  string `json:"device_id"`
	}
	_ = json.Unmarshal([]byte(d.StdBoardInfo), &board) // opaque text has no id
	return strings.TrimPrefix(strings.ToLower(cmp.Or(board.ProductID, board.DeviceID)), "0x")
}

// ControlPath says how the host reaches a device. Its Info is the device's identity from one report to the next.
type ControlPath struct {
	Type string `json:"cpid_type"`
	Info Info   `json:"cpid_info"`
}

// Key returns the identity of the control path: its information as JSON with sorted keys, as the conductor compares it.
func (c ControlPath) Key() string { return c.Info.Key() }

// Deployable is a part of a device that is offered as one resource provider. Its Name
// is the provider's name, so it is unique in the cloud and at most 200 characters.
type Deployable struct {
	Name string `json:"name"`
	// NumAccelerators is the total of the provider's inventory.
	NumAccelerators int `json:"num_accelerators"`
	// DriverName is the driver in Cyborg's API: upstream's short name, such as intel_fpga, which
	// may differ from Driver.Name.
	DriverName string `json:"driver_name"`
	// Programmable is false for a region that must never be programmed; nil means that the device decides.
	Programmable *bool `json:"programmable,omitempty"`
	// Hidden is set where the kernel does not show what is in it, as while a guest has it on vfio-pci:
	// agents keep the traits that they know, and the information of its handles.
	Hidden bool `json:"hidden,omitempty"`
	// Class is the resource class of the provider's inventory, Traits are its traits, each once.
	Class  string   `json:"class,omitempty"`
	Traits []string `json:"traits,omitempty"`
	// Attributes are further ones. Cyborg stores class and traits as attributes, too: see
	// AttributeList. Decoding accepts them in this list.
	Attributes    []Attribute    `json:"attribute_list,omitempty"`
	AttachHandles []AttachHandle `json:"attach_handle_list"`
	// Resources are further inventories of the provider, by resource class: local memory
	// in MiB. They have no attach handles. Upstream does not have this field.
	Resources map[string]int `json:"resources,omitempty"`
}

// Preprogrammed reports whether the region must not be programmed.
func (d Deployable) Preprogrammed() bool { return d.Programmable != nil && !*d.Programmable }

// Attribute is one key and value of a deployable.
type Attribute struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// The attribute keys of upstream's drivers: rc has the resource class, and every key that
// begins with "trait" has a trait.
const (
	keyClass    = "rc"
	prefixTrait = "trait"
	fakeDriver  = "fake"
)

// AttributeList returns class, traits and further attributes as Cyborg stores and lists
// them: with the keys rc, trait0, trait1 and so on. Upstream's fake driver counts from
// traits1 and puts the class last.
func (d Deployable) AttributeList() []Attribute {
	list := make([]Attribute, 0, 1+len(d.Traits)+len(d.Attributes))
	key, first := prefixTrait, 0
	if d.DriverName == fakeDriver {
		key, first = "traits", 1
	} else if d.Class != "" {
		list = append(list, Attribute{keyClass, d.Class})
	}
	for i, trait := range d.Traits {
		list = append(list, Attribute{fmt.Sprint(key, first+i), trait})
	}
	if d.DriverName == fakeDriver && d.Class != "" {
		list = append(list, Attribute{keyClass, d.Class})
	}
	return append(list, d.Attributes...)
}

// SetAttributeList sets Class, Traits and Attributes from such a list. The conductor of
// upstream finds class and traits by these keys, too.
func (d *Deployable) SetAttributeList(list []Attribute) {
	d.Class, d.Traits, d.Attributes = "", nil, nil
	for _, a := range list {
		switch {
		case a.Key == keyClass && d.Class == "":
			d.Class = a.Value
		case strings.HasPrefix(a.Key, prefixTrait):
			d.Traits = append(d.Traits, a.Value)
		default:
			d.Attributes = append(d.Attributes, a)
		}
	}
}

// UnmarshalJSON decodes a deployable. Class and traits may also be in attribute_list, as
// upstream's drivers report them. Unknown fields are refused.
func (d *Deployable) UnmarshalJSON(data []byte) error {
	type fields Deployable
	var in fields
	if err := strictjson.Decode(data, &in); err != nil {
		return err
	}
	listed := Deployable{}
	listed.SetAttributeList(in.Attributes)
	if listed.Class != "" && in.Class != "" || len(listed.Traits) > 0 && len(in.Traits) > 0 {
		return errors.New("class or traits are given twice, once of them in attribute_list")
	}
	in.Class += listed.Class
	in.Traits = append(in.Traits, listed.Traits...)
	in.Attributes = listed.Attributes
	*d = Deployable(in)
	return nil
}

// AttachHandle is one unit that can be given to a virtual machine.
type AttachHandle struct {
	// Type is one of the Handle constants.
	Type string `json:"attach_type"`
	Info Info   `json:"attach_info"`
	// InUse is set if the unit is in use. It is not offered unless a request of Cyborg uses it.
	InUse bool `json:"in_use,omitempty"`
	// Functions are the function traits of this unit, if the units of the deployable lead to
	// different functions. The function of a unit without any is then unknown. Upstream does not
	// have this field.
	Functions []string `json:"functions,omitempty"`
}

// Key returns the identity of the handle within its deployable: its information as JSON
// text with sorted keys.
func (h AttachHandle) Key() string { return h.Info.Key() }

// Info is the information of a control path or an attach handle: field names and their
// text values. Decoding accepts a JSON object, or a JSON string that holds the text of
// one, which is how upstream's drivers carry it. Encoding writes an object.
type Info map[string]string

// Key returns the information as JSON text with sorted keys and no blanks.
func (i Info) Key() string {
	if i == nil {
		return "{}"
	}
	if text, ok := i.plainKey(); ok {
		return text
	}
	text, err := json.Marshal(map[string]string(i))
	if err != nil { // a map of strings always encodes
		return ""
	}
	return string(text)
}

// plainKey is Key of information that needs no escapes. Each device of a report is compared by it,
// and package json takes ten times as long.
func (i Info) plainKey() (string, bool) {
	var room [4]string
	names, size := room[:0], len("{}")
	for name, value := range i {
		if !isPlain(name) || !isPlain(value) {
			return "", false
		}
		names = append(names, name)
		size += len(name) + len(value) + len(`"":"",`)
	}
	slices.Sort(names)
	text := append(make([]byte, 0, size), '{')
	for n, name := range names {
		if n > 0 {
			text = append(text, ',')
		}
		text = append(append(append(text, '"'), name...), `":"`...)
		text = append(append(text, i[name]...), '"')
	}
	return string(append(text, '}')), true
}

// isPlain reports whether JSON needs no escapes for a text.
func isPlain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// UnmarshalJSON decodes an object of strings, or a string that holds such an object.
func (i *Info) UnmarshalJSON(data []byte) error {
	object := data
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '"' {
		var text string
		if err := json.Unmarshal(trimmed, &text); err != nil {
			return fmt.Errorf("driver: decode information: %w", err)
		}
		object = []byte(text)
	}
	var fields map[string]string
	if err := json.Unmarshal(object, &fields); err != nil {
		return fmt.Errorf("driver: decode information: not an object of strings: %w", err)
	}
	*i = fields
	return nil
}

// Clone returns a copy that shares nothing with d.
func (d Device) Clone() Device {
	d.ControlPath.Info = maps.Clone(d.ControlPath.Info)
	d.Resources = maps.Clone(d.Resources)
	d.Deployables = slices.Clone(d.Deployables)
	for i := range d.Deployables {
		p := &d.Deployables[i]
		p.Traits, p.Attributes = slices.Clone(p.Traits), slices.Clone(p.Attributes)
		p.Resources = maps.Clone(p.Resources)
		p.AttachHandles = slices.Clone(p.AttachHandles)
		for j := range p.AttachHandles {
			h := &p.AttachHandles[j]
			h.Info, h.Functions = maps.Clone(h.Info), slices.Clone(h.Functions)
		}
	}
	return d
}
