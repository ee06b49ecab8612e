package simcloud

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// Replacement says what of a listing is not to be seen in a cloud made of it.
type Replacement struct {
	// Names replaces the names of hosts, resource providers, deployables and device
	// profiles, and the ids of projects and users that are no UUIDs. Descriptions of
	// device profiles and the region are left out. Names of traits and resource classes,
	// models and drivers stay.
	Names bool
	// IDs replaces all UUIDs of things of the cloud: not those of FPGA regions and
	// functions, which belong to the hardware and are parts of names of traits.
	IDs bool
	// Seed chooses the new ids.
	Seed uint64
}

var (
	// plainRest is the part of a provider's name behind that of its host that tells
	// nobody anything: an address, with a word in front.
	plainRest = regexp.MustCompile(`^((pci|GPU|FPGA|AICHIP|QAT|NIC|SSD|HPTS)_)?[0-9a-f]{4,8}[:_][0-9a-f]{2}[:_][0-9a-f]{2}[._][0-7](_(region|nvidia-)[0-9]+)?$|^FakeDevice$`)
	uuidText  = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\b`)
	unsafe    = regexp.MustCompile(`[^a-zA-Z0-9_-]`)
)

// Replace returns a listing that says the same of other names and ids, the same ones for
// the same ones everywhere, also within board information, attributes and attach handles.
// The uuid of a provider that was made of its name, as Cyborg does, is made of its new
// name. The listing itself stays as it is; the error matches [ErrListing].
func (l Listing) Replace(r Replacement) (Listing, error) {
	var out Listing
	data, err := json.Marshal(l)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		return Listing{}, fmt.Errorf("%w: copy: %w", ErrListing, err)
	}
	x := &replacer{
		Replacement: r, names: make(map[string]string), profiles: make(map[string]string),
		owners: make(map[string]string), ids: make(map[string]string), used: make(map[string]bool), last: make(map[string]int),
	}
	if r.Names {
		x.learnNames(l)
		out.Region = ""
	}
	x.learnIDs(l)
	x.placement(&out.Placement)
	if out.Accelerator != nil {
		x.accelerator(out.Accelerator)
	}
	return out, out.Validate()
}

// replacer knows what stands for what.
type replacer struct {
	Replacement
	names    map[string]string // of hosts, providers and deployables
	profiles map[string]string
	owners   map[string]string // projects and users whose id is no UUID
	ids      map[string]string // UUIDs without dashes
	used     map[string]bool   // names that were there, and that were given
	last     map[string]int    // how often a kind of name was given
	longest  int               // of the names
}

// fresh is the next name of a kind that nobody has or had.
func (x *replacer) fresh(format string) string {
	for {
		x.last[format]++
		if name := fmt.Sprintf(format, x.last[format]); !x.used[name] {
			x.used[name] = true
			return name
		}
	}
}

func (x *replacer) learnNames(l Listing) {
	hosts, others := l.hostNames(), l.otherNames()
	for _, name := range slices.Concat(hosts, others) {
		x.used[name] = true
	}
	for _, name := range hosts {
		x.names[name] = x.fresh("host-%d")
	}
	forms := make(map[string]string, 2*len(hosts))
	for _, host := range hosts {
		forms[host] = host
		if form := unsafe.ReplaceAllString(host, "_"); forms[form] == "" {
			forms[form] = host // as the fake driver writes it
		}
	}
	for _, name := range others {
		if _, known := x.names[name]; !known {
			x.names[name] = x.nameBelow(name, forms)
		}
	}
	for name := range x.names {
		x.longest = max(x.longest, len(name))
	}
	if l.Accelerator == nil {
		return
	}
	for _, p := range l.Accelerator.DeviceProfiles {
		x.used[p.Name] = true
	}
	for _, p := range l.Accelerator.DeviceProfiles {
		x.profiles[p.Name] = x.fresh("profile-%d")
	}
}

// hostNames are the names of compute hosts, in the order of the listing.
func (l Listing) hostNames() []string {
	var names []string
	known, cyborgs := make(map[string]bool), make(map[string]bool)
	add := func(name string) {
		if name != "" && !known[name] {
			known[name] = true
			names = append(names, name)
		}
	}
	if l.Accelerator != nil {
		for _, d := range l.Accelerator.Devices {
			cyborgs[d.Hostname] = true
		}
	}
	for _, p := range l.Placement.ResourceProviders {
		if p.isHost(cyborgs) {
			add(p.Name)
		}
	}
	if l.Accelerator == nil {
		return names
	}
	for _, d := range l.Accelerator.Devices {
		add(d.Hostname)
	}
	for _, a := range l.Accelerator.ARQs {
		add(a.Hostname)
	}
	return names
}

// otherNames are the names of all providers and deployables.
func (l Listing) otherNames() []string {
	var names []string
	for _, p := range l.Placement.ResourceProviders {
		names = append(names, p.Name)
	}
	if l.Accelerator != nil {
		for _, d := range l.Accelerator.Deployables {
			names = append(names, d.Name)
		}
	}
	return names
}

// nameBelow is the new name of a provider that may begin with that of its host. Forms are
// the hosts by what the name may begin with; the longest counts.
func (x *replacer) nameBelow(name string, forms map[string]string) string {
	end := strings.LastIndexByte(name, '_')
	for end > 0 && forms[name[:end]] == "" {
		end = strings.LastIndexByte(name[:end], '_')
	}
	if end <= 0 {
		return x.fresh("provider-%d")
	}
	host := x.names[forms[name[:end]]]
	if rest := name[end+1:]; plainRest.MatchString(rest) && !x.used[host+"_"+rest] {
		x.used[host+"_"+rest] = true
		return host + "_" + rest
	}
	return x.fresh(host + "_provider-%d")
}

// learnIDs decides about every UUID of the listing.
func (x *replacer) learnIDs(l Listing) {
	for _, p := range l.Placement.ResourceProviders {
		x.learnID(p.UUID)
		for _, id := range p.Aggregates {
			x.learnID(id)
		}
	}
	for _, c := range l.Placement.Consumers {
		x.learnID(c.UUID)
		x.learnOwner(c.ProjectID, "project-%d")
		x.learnOwner(c.UserID, "user-%d")
	}
	if l.Accelerator != nil {
		x.learnRows(*l.Accelerator)
	}
	for _, p := range l.Placement.ResourceProviders {
		x.learnNamed(p.UUID, p.Name)
	}
	if l.Accelerator != nil {
		for _, d := range l.Accelerator.Deployables {
			x.learnNamed(d.ProviderUUID, d.Name)
		}
	}
}

func (x *replacer) learnRows(a AcceleratorListing) {
	for _, d := range a.Devices {
		x.learnID(d.UUID)
	}
	for _, d := range a.Deployables {
		x.learnID(d.UUID)
		x.learnID(d.ProviderUUID)
		x.learnID(d.BitstreamID)
	}
	for _, attribute := range a.Attributes {
		x.learnID(attribute.UUID)
	}
	for _, p := range a.DeviceProfiles {
		x.learnID(p.UUID)
		for _, group := range p.Groups {
			x.learnID(group["accel:bitstream_id"])
		}
	}
	for _, arq := range a.ARQs {
		for _, id := range []string{arq.UUID, arq.ProviderUUID, arq.InstanceUUID, arq.AttachHandleUUID} {
			x.learnID(id)
		}
		x.learnOwner(arq.ProjectID, "project-%d")
	}
}

func (x *replacer) learnID(id string) {
	bare := bareHex(id)
	if bare == "" || !x.IDs {
		return
	}
	x.ids[bare] = x.digest(bare)
}

// digest is a version 4 UUID without dashes that stands for a text.
func (x *replacer) digest(text string) string {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, x.Seed), text...))
	sum[6] = sum[6]&0x0f | 0x40
	sum[8] = sum[8]&0x3f | 0x80
	return hex.EncodeToString(sum[:16])
}

// learnNamed keeps a UUID that is made of a name one that is made of its new name.
func (x *replacer) learnNamed(id, name string) {
	if fresh, renamed := x.names[name]; renamed && id == driver.ProviderUUID(name) {
		x.ids[bareHex(id)] = bareHex(driver.ProviderUUID(fresh))
	}
}

// learnOwner decides about the id of a project or user.
func (x *replacer) learnOwner(id, format string) {
	if bareHex(id) != "" {
		x.learnID(id)
		return
	}
	if _, known := x.owners[id]; known || id == "" || !x.Names && !x.IDs {
		return
	}
	x.used[id] = true
	if x.IDs { // as a UUID, since a name could be left over from the cloud
		x.owners[id] = x.digest(id)
		return
	}
	x.owners[id] = x.fresh(format)
}

// name is the new form of a name; one that is not known is a text.
func (x *replacer) name(name string) string {
	if fresh, known := x.names[name]; known {
		return fresh
	}
	return x.free(name)
}

// id is the new form of a UUID, written as the old one.
func (x *replacer) id(id string) string {
	fresh, known := x.ids[bareHex(id)]
	switch {
	case !known:
		return id
	case strings.Contains(id, "-"):
		fresh = fresh[:8] + "-" + fresh[8:12] + "-" + fresh[12:16] + "-" + fresh[16:20] + "-" + fresh[20:]
	}
	if id == strings.ToUpper(id) && id != strings.ToLower(id) {
		return strings.ToUpper(fresh)
	}
	return fresh
}

func (x *replacer) owner(id string) string {
	if fresh, known := x.owners[id]; known {
		return fresh
	}
	return x.id(id)
}

// free replaces what is known within a text. A name counts where no letter or digit
// stands beside it: the host cn1 is not in cn10. Of several the longest counts.
func (x *replacer) free(text string) string {
	text = uuidText.ReplaceAllStringFunc(text, x.id)
	var out strings.Builder
	for at := 0; at < len(text); {
		if at == 0 || !alphanumeric(text[at-1]) {
			if name := x.nameAt(text[at:]); name != "" {
				out.WriteString(x.names[name])
				at += len(name)
				continue
			}
		}
		out.WriteByte(text[at])
		at++
	}
	return out.String()
}

// nameAt is the longest known name that a text begins with.
func (x *replacer) nameAt(text string) string {
	for end := min(len(text), x.longest); end > 0; end-- {
		if _, known := x.names[text[:end]]; known && (end == len(text) || !alphanumeric(text[end])) {
			return text[:end]
		}
	}
	return ""
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (x *replacer) placement(p *PlacementListing) {
	for i := range p.ResourceProviders {
		rp := &p.ResourceProviders[i]
		rp.UUID, rp.Name, rp.Parent = x.id(rp.UUID), x.name(rp.Name), x.id(rp.Parent)
		for j, id := range rp.Aggregates {
			rp.Aggregates[j] = x.id(id)
		}
	}
	for i := range p.Consumers {
		c := &p.Consumers[i]
		c.UUID, c.ProjectID, c.UserID = x.id(c.UUID), x.owner(c.ProjectID), x.owner(c.UserID)
		allocations := make(map[string]map[string]int64, len(c.Allocations))
		for provider, amounts := range c.Allocations {
			allocations[x.id(provider)] = amounts
		}
		c.Allocations = allocations
	}
}

func (x *replacer) accelerator(a *AcceleratorListing) {
	for i := range a.Devices {
		d := &a.Devices[i]
		d.UUID, d.Hostname = x.id(d.UUID), x.name(d.Hostname)
		d.Vendor, d.Model = x.free(d.Vendor), x.free(d.Model)
		d.StdBoardInfo, d.VendorBoardInfo = x.free(d.StdBoardInfo), x.free(d.VendorBoardInfo)
	}
	for i := range a.Deployables {
		d := &a.Deployables[i]
		d.UUID, d.Name, d.ProviderUUID, d.BitstreamID = x.id(d.UUID), x.name(d.Name), x.id(d.ProviderUUID), x.id(d.BitstreamID)
		for j := range d.Attributes {
			d.Attributes[j].Value = x.attribute(d.Attributes[j].Key, d.Attributes[j].Value)
		}
	}
	for i := range a.Attributes {
		attribute := &a.Attributes[i]
		attribute.UUID, attribute.Value = x.id(attribute.UUID), x.attribute(attribute.Key, attribute.Value)
	}
	for i := range a.DeviceProfiles {
		x.profile(&a.DeviceProfiles[i])
	}
	for i := range a.ARQs {
		x.request(&a.ARQs[i])
	}
}

// attribute leaves the names of traits and classes alone: Placement knows them.
func (x *replacer) attribute(key, value string) string {
	if key == driver.KeyResourceClass || strings.HasPrefix(key, "trait") {
		return value
	}
	return x.free(value)
}

func (x *replacer) profile(p *ListedProfile) {
	p.UUID, p.Name = x.id(p.UUID), cmp.Or(x.profiles[p.Name], p.Name)
	if p.Description = x.free(p.Description); x.Names {
		p.Description = ""
	}
	for _, group := range p.Groups {
		for key, value := range group {
			if strings.HasPrefix(key, "accel:") {
				group[key] = x.free(value)
			}
		}
	}
}

func (x *replacer) request(a *ListedARQ) {
	a.UUID, a.ProfileName, a.Hostname = x.id(a.UUID), cmp.Or(x.profiles[a.ProfileName], a.ProfileName), x.name(a.Hostname)
	a.ProviderUUID, a.InstanceUUID, a.ProjectID = x.id(a.ProviderUUID), x.id(a.InstanceUUID), x.owner(a.ProjectID)
	a.AttachHandleUUID = x.id(a.AttachHandleUUID)
	for key, value := range a.AttachHandleInfo {
		a.AttachHandleInfo[key] = x.free(value)
	}
}
