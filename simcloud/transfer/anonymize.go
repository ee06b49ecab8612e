package transfer

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// Anonymization says what of a listing is replaced.
type Anonymization struct {
	// Names replaces the names of hosts, resource providers, deployables and device
	// profiles, and the ids of projects and users that are no UUIDs. Descriptions of
	// device profiles and the region are left out.
	Names bool
	// IDs replaces all UUIDs but those of FPGA regions and functions, which belong to the
	// hardware and are parts of names of traits.
	IDs bool
	// Seed chooses the new UUIDs.
	Seed uint64
}

// Anonymize returns a listing that says the same of other names and ids. What is the same
// stays the same everywhere, also within board information, attributes and attach handles.
// The UUID of a resource provider that Cyborg made of its name is made of its new name. A
// name of the listing is never given to something else. The error matches [ErrListing].
func (l Listing) Anonymize(a Anonymization) (Listing, error) {
	x := &anonymizer{
		Anonymization: a, names: make(map[string]string), profiles: make(map[string]string), owners: make(map[string]string),
		ids: make(map[string]string), used: make(map[string]bool), last: make(map[string]int),
	}
	if a.Names {
		x.learnNames(l)
	}
	if _, err := l.eachText(x.learn); err != nil {
		return Listing{}, err
	}
	x.learnProviders(l)
	out, err := l.eachText(x.replace)
	if err != nil {
		return Listing{}, err
	}
	return out, out.Validate()
}

// eachText returns a copy of the listing in which each text is replaced. The field is the
// name of the innermost member of the JSON form that has it, except that the keys of
// allocations are texts of that field, and the values of an attach handle, too.
func (l Listing) eachText(replace func(field, text string) string) (out Listing, err error) {
	var tree any
	data, err := json.Marshal(l)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		err = dec.Decode(&tree)
	}
	if err == nil {
		data, err = json.Marshal(eachText("", tree, replace))
	}
	if err == nil {
		err = json.Unmarshal(data, &out)
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
			v[i] = eachText(field, v[i], replace)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) { // in order, since new names are numbered
			switch each := v[name]; {
			case field == "allocations":
				out[replace(field, name)] = each
			case field == "attach_handle_info":
				out[name] = eachText(field, each, replace)
			case name == "value" && isTrait(fmt.Sprint(v["key"])): // Placement has the same name
				out[name] = each
			default:
				out[name] = eachText(name, each, replace)
			}
		}
		return out
	}
	return value
}

// isTrait tells whether the value of an attribute is the name of a trait or resource class.
func isTrait(key string) bool {
	return key == driver.KeyResourceClass || strings.HasPrefix(key, "trait")
}

// isID tells whether the field of a listing holds a UUID.
func isID(field string) bool {
	switch field {
	case "uuid", "parent_provider_uuid", "aggregates", "allocations", "rp_uuid", "bitstream_id", "accel:bitstream_id",
		"device_rp_uuid", "instance_uuid", "attach_handle_uuid", "project_id", "user_id":
		return true
	}
	return false
}

// isOwner tells whether the field holds the id of a project or user, which may be any text.
func isOwner(field string) bool { return field == "project_id" || field == "user_id" }

// anonymizer knows what stands for what.
type anonymizer struct {
	Anonymization
	names    map[string]string // of hosts, resource providers and deployables
	profiles map[string]string
	owners   map[string]string // projects and users whose id is no UUID
	ids      map[string]string // UUIDs without dashes
	used     map[string]bool   // names of the listing and new ones
	last     map[string]int    // the number of the newest name, by format
	longest  int               // of the names
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

func (x *anonymizer) learnNames(l Listing) {
	hosts, names, profiles := l.hosts(), []string{}, []string{}
	for _, p := range l.Placement.ResourceProviders {
		names = append(names, p.Name)
	}
	if l.Accelerator != nil {
		for _, d := range l.Accelerator.Deployables {
			names = append(names, d.Name)
		}
		for _, p := range l.Accelerator.DeviceProfiles {
			profiles = append(profiles, p.Name)
		}
	}
	for _, list := range [][]string{hosts, names, profiles} {
		for _, name := range list {
			x.used[name] = true
		}
	}
	prefixes := make(map[string]string, 2*len(hosts)) // new names, by what names may begin with
	for _, host := range hosts {
		x.names[host] = x.fresh("host-%d")
		prefixes[unsafe.ReplaceAllString(host, "_")] = x.names[host] // as the fake driver writes it
	}
	for _, host := range hosts {
		prefixes[host] = x.names[host]
	}
	for _, name := range names {
		if x.names[name] == "" {
			x.names[name] = x.below(name, prefixes)
		}
	}
	for name := range x.names {
		x.longest = max(x.longest, len(name))
	}
	for _, name := range profiles {
		x.profiles[name] = x.fresh("profile-%d")
	}
}

var (
	// plainRest is the part of a provider's name behind that of its host that identifies
	// nothing but a place: an address, with a word in front.
	plainRest = regexp.MustCompile(`^((pci|GPU|FPGA|AICHIP|QAT|NIC|SSD|HPTS)_)?[0-9a-f]{4,8}[:_][0-9a-f]{2}[:_][0-9a-f]{2}[._][0-7](_(region|nvidia-)[0-9]+)?$|^FakeDevice$`)
	uuidText  = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b`)
	unsafe    = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
)

// below is the new name of a provider whose name may begin with that of its host. The
// longest host counts.
func (x *anonymizer) below(name string, prefixes map[string]string) string {
	for end := strings.LastIndexByte(name, '_'); end > 0; end = strings.LastIndexByte(name[:end], '_') {
		host := prefixes[name[:end]]
		if host == "" {
			continue
		}
		if fresh := host + name[end:]; plainRest.MatchString(name[end+1:]) && !x.used[fresh] {
			x.used[fresh] = true
			return fresh
		}
		return x.fresh(host + "_provider-%d")
	}
	return x.fresh("provider-%d")
}

// learn chooses the new form of each UUID, and of the id of each project and user.
func (x *anonymizer) learn(field, text string) string {
	bare := bareHex(text)
	switch {
	case !isID(field) || text == "" || x.owners[text] != "":
	case bare != "" && x.IDs:
		x.ids[bare] = digest(x.Seed, bare)
	case isOwner(field) && bare == "" && x.IDs: // a UUID, since a name could be one of the listing
		x.owners[text] = digest(x.Seed, text)
	case isOwner(field) && bare == "" && x.Names:
		x.used[text] = true
		x.owners[text] = x.fresh(strings.TrimSuffix(field, "_id") + "-%d")
	}
	return text
}

// learnProviders keeps the UUID of a provider that is made of its name one that is made of its
// name.
func (x *anonymizer) learnProviders(l Listing) {
	learn := func(id, name string) {
		if fresh := x.names[name]; fresh != "" && id == driver.ProviderUUID(name) {
			x.ids[bareHex(id)] = bareHex(driver.ProviderUUID(fresh))
		}
	}
	for _, p := range l.Placement.ResourceProviders {
		learn(p.UUID, p.Name)
	}
	if l.Accelerator != nil {
		for _, d := range l.Accelerator.Deployables {
			learn(d.ProviderUUID, d.Name)
		}
	}
}

// replace is the new form of a text.
func (x *anonymizer) replace(field, text string) string {
	switch field {
	case "name", "hostname", "device_profile_name":
		return cmp.Or(x.names[text], x.profiles[text], x.text(text))
	case "region", "description":
		if x.Names {
			return ""
		}
		return x.text(text)
	case "vendor", "model", "std_board_info", "vendor_board_info", "value", "attach_handle_info":
		return x.text(text)
	}
	switch {
	case isID(field):
		return cmp.Or(x.owners[text], x.id(text))
	case strings.HasPrefix(field, "accel:"):
		return x.text(text)
	}
	return text
}

// id is the new form of a UUID, written as the old one.
func (x *anonymizer) id(id string) string {
	fresh, known := x.ids[bareHex(id)]
	if !known {
		return id
	}
	if strings.Contains(id, "-") {
		fresh = dashed(fresh)
	}
	if id == strings.ToUpper(id) && id != strings.ToLower(id) {
		return strings.ToUpper(fresh)
	}
	return fresh
}

// text replaces names and UUIDs within a text. A name counts where no letter or digit is
// next to it: the host cn1 is not in cn10. Of several the longest counts.
func (x *anonymizer) text(text string) string {
	text = uuidText.ReplaceAllStringFunc(text, x.id)
	var out strings.Builder
	for at := 0; at < len(text); {
		if name := x.nameAt(text, at); name != "" {
			out.WriteString(x.names[name])
			at += len(name)
			continue
		}
		out.WriteByte(text[at])
		at++
	}
	return out.String()
}

// nameAt is the longest name that stands in the text there.
func (x *anonymizer) nameAt(text string, at int) string {
	if at > 0 && alphanumeric(text[at-1]) {
		return ""
	}
	for end := min(len(text), at+x.longest); end > at; end-- {
		if x.names[text[at:end]] != "" && (end == len(text) || !alphanumeric(text[end])) {
			return text[at:end]
		}
	}
	return ""
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// bareHex is a UUID without dashes in lower case, or "" for anything else.
func bareHex(text string) string {
	bare := strings.ToLower(strings.ReplaceAll(text, "-", ""))
	if len(bare) != 32 || strings.Trim(bare, "0123456789abcdef") != "" {
		return ""
	}
	return bare
}

// digest is a UUID of version 4 without dashes that stands for a text.
func digest(seed uint64, text string) string {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, seed), text...))
	sum[6] = sum[6]&0x0f | 0x40
	sum[8] = sum[8]&0x3f | 0x80
	return hex.EncodeToString(sum[:16])
}

func dashed(bare string) string {
	return bare[:8] + "-" + bare[8:12] + "-" + bare[12:16] + "-" + bare[16:20] + "-" + bare[20:]
}
