package transfer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

// Anonymization selects what is replaced in a listing. Region, descriptions and board information
// are omitted with either option.
type Anonymization struct {
	// Names replaces the names of hosts, resource providers, deployables and device
	// profiles, of images and physical networks, and the ids of projects and users that are not UUIDs.
	Names bool
	// IDs replaces all UUIDs but those of FPGA regions and functions, which belong to the
	// hardware and are parts of names of traits.
	IDs bool
	// Seed chooses the new UUIDs.
	Seed uint64
}

// Anonymize returns a listing that says the same of other names and ids. What is the same
// stays the same everywhere. The UUID of a resource provider that Cyborg made of its name
// is made of its new name. A name of the listing is never given to something else. The
// error matches [ErrListing].
func (l Listing) Anonymize(a Anonymization) (Listing, error) {
	x := &anonymizer{
		Anonymization: a, names: make(map[string]string), labels: make(map[string]string), ids: make(map[string]string),
		used: make(map[string]bool), last: make(map[string]int),
	}
	if _, err := l.eachText(func(_, text string) string { x.used[text] = true; return text }); err != nil {
		return Listing{}, err
	}
	o, err := l.original()
	if err != nil {
		return Listing{}, err
	}
	if a.Names {
		x.learnNames(o)
	}
	if _, err := l.eachText(x.learn); err != nil {
		return Listing{}, err
	}
	out, err := l.eachText(x.replace)
	if err != nil {
		return Listing{}, err
	}
	return out, out.check()
}

// eachText returns a copy of the listing in which each text is replaced. The field is the
// name of the innermost member of the JSON form that has it, except that the keys of
// allocations are texts of that field, and the values of an attach handle and of a list of
// attributes, too. An element of a list that is null is a text of the field null.
func (l Listing) eachText(replace func(field, text string) string) (out Listing, err error) {
	var tree any
	data, err := l.JSON()
	if err == nil {
		err = json.Unmarshal(data, &tree)
	}
	if err == nil {
		data, _ = json.Marshal(eachText("", tree, replace))
		err = json.Unmarshal(data, &out.answers)
	}
	if err != nil {
		return Listing{}, fmt.Errorf("%w: copy: %w", ErrListing, err)
	}
	return out, nil
}

func eachText(field string, value any, replace func(field, text string) string) any {
	switch v := value.(type) {
	case string:
		return replace(field, v)
	case []any:
		for i := range v {
			if v[i] == nil {
				replace("null", "")
			}
			v[i] = eachText(field, v[i], replace)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) { // in order, since new names are numbered
			_, named := namesOf(name)
			switch {
			case field == "allocations":
				out[replace(field, name)] = v[name]
			case !named && slices.Contains([]string{"attach_handle_info", "attributes_list", "resource_classes"}, field):
				out[name] = eachText(field, v[name], replace)
			default:
				out[name] = eachText(name, v[name], replace)
			}
		}
		return out
	}
	return value
}

// namesOf is the format of new names for the values of a field that has names of images or networks.
func namesOf(field string) (format string, ok bool) {
	switch field {
	case "accel:bitstream_name", "accel:function_name":
		return "image-%d", true
	case "physical_network":
		return "network-%d", true
	}
	return "", false
}

// isID reports whether the field of a listing holds a UUID.
func isID(field string) bool {
	return slices.Contains([]string{
		"uuid", "parent_provider_uuid", "aggregates", "allocations", "rp_uuid", "bitstream_id", "accel:bitstream_id",
		"device_rp_uuid", "instance_uuid", "attach_handle_uuid",
	}, field)
}

// anonymizer maps original values to replacements.
type anonymizer struct {
	Anonymization
	names  map[string]string // of hosts, resource providers and deployables
	labels map[string]string // names of device profiles, images and networks, and ids of projects and users
	ids    map[string]string // new UUIDs by old ones without dashes
	used   map[string]bool   // texts of the listing and new names
	last   map[string]int    // the number of the newest name, by format
}

// fresh is the next name of a format that is not used.
func (x *anonymizer) fresh(format string) string {
	for {
		x.last[format]++
		if name := fmt.Sprintf(format, x.last[format]); !x.used[name] {
			x.used[name] = true
			return name
		}
	}
}

// learnNames chooses the new form of each name, and of each UUID that is made of a name.
func (x *anonymizer) learnNames(o *original) {
	hosts, providers := o.hosts(), slices.Clone(o.Placement.Providers)
	for _, d := range o.Cyborg.Deployables { // Placement has the same name, unless it lacks the provider
		providers = append(providers, &provider{UUID: d.ProviderUUID, Name: d.Name})
	}
	for _, host := range hosts {
		x.names[host] = x.fresh("host-%d")
	}
	known := prefixesOf(hosts)
	for _, p := range providers {
		if x.names[p.Name] == "" {
			x.names[p.Name] = x.below(known.cut(p.Name))
		}
		if p.UUID == driver.ProviderUUID(p.Name) {
			x.ids[bareHex(p.UUID)] = driver.ProviderUUID(x.names[p.Name])
		}
	}
	for _, p := range o.Cyborg.Profiles {
		x.labels[p.Name] = x.fresh("profile-%d")
	}
}

// plainRest matches the part of a provider's name after the host name if it identifies only a
// place: an address, with a word in front.
var plainRest = regexp.MustCompile(`^((pci|GPU|FPGA|AICHIP|QAT|NIC|SSD|MDEV|PCI|NVME|HPTS)_)?[0-9a-f]{4,8}[:_][0-9a-f]{2}[:_][0-9a-f]{2}[._][0-7](_(region|nvidia-)[0-9]+)?$|^FakeDevice$`)

// below is the new name of a provider whose name begins with a host name, if host is not empty.
func (x *anonymizer) below(host, rest string) string {
	if host == "" {
		return x.fresh("provider-%d")
	}
	if fresh := x.names[host] + "_" + rest; plainRest.MatchString(rest) && !x.used[fresh] {
		x.used[fresh] = true
		return fresh
	}
	return x.fresh(x.names[host] + "_provider-%d")
}

// learn chooses the new form of each UUID, and of the id of each project and user.
func (x *anonymizer) learn(field, text string) string {
	bare, owner := bareHex(text), field == "project_id" || field == "user_id"
	format, named := namesOf(field)
	switch {
	case named && x.Names && text != "" && x.names[text] == "" && x.labels[text] == "" && (bare == "" || !x.IDs):
		x.labels[text] = x.fresh(format)
	case !isID(field) && !owner || text == "" || x.ids[bare] != "" || x.labels[text] != "":
	case bare != "" && x.IDs:
		x.ids[bare] = withVersion(newUUID(x.Seed, bare), bare)
	case owner && bare == "" && x.IDs: // a UUID, since a name could be one of the listing
		x.labels[text] = newUUID(x.Seed, text)
	case owner && bare == "" && x.Names:
		x.labels[text] = x.fresh(strings.TrimSuffix(field, "_id") + "-%d")
	}
	return text
}

// replace is the new form of a text. Values of attributes, attach handles and accel: keys
// may be names and ids.
func (x *anonymizer) replace(field, text string) string {
	switch field {
	case "region", "description", "std_board_info", "vendor_board_info":
		return ""
	case "project_id", "user_id":
		return cmp.Or(x.labels[text], x.id(text))
	case "name", "device_profile_name":
		return cmp.Or(x.names[text], x.labels[text], text)
	}
	if _, named := namesOf(field); named {
		return cmp.Or(x.names[text], x.labels[text], x.id(text))
	}
	if isID(field) || strings.HasPrefix(field, "accel:") || slices.Contains([]string{"hostname", "value", "attributes_list", "attach_handle_info"}, field) {
		return cmp.Or(x.names[text], x.id(text))
	}
	return text
}

// id is the new form of a UUID, with dashes if the old one has some.
func (x *anonymizer) id(id string) string {
	fresh := cmp.Or(x.ids[bareHex(id)], id)
	if !strings.Contains(id, "-") && fresh != id {
		return bareHex(fresh)
	}
	return fresh
}

// bareHex is a UUID without dashes in lower case, or "" for anything else.
func bareHex(text string) string {
	if !uuids.Like(text) {
		return ""
	}
	return strings.ReplaceAll(uuids.Canonical(text), "-", "")
}

// withVersion returns a UUID with the version of another one. By it a client knows the resource providers of Cyborg, which are of
// version 3.
func withVersion(id, of string) string {
	if d := uuids.Canonical(of); uuids.Is(d) {
		return id[:14] + d[14:15] + id[15:]
	}
	return id
}

// newUUID derives a UUID from a text.
func newUUID(seed uint64, text string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, seed, " ", text)).String()
}
