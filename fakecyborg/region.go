package fakecyborg

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/driver"
)

// nestedShape is treeShape, but a device of several regions has a provider of
// its own between the host and its regions, with the traits of the device: type
// and family. The regions carry these, too, and their own: region, function,
// CUSTOM_PROGRAMMABLE, functionality. A device without partial reconfiguration
// is one region and needs no provider above it (Rocky specification of Nova's
// interaction with Cyborg, "Representation").
type nestedShape struct {
	client  *placementClient
	mu      sync.Mutex
	regions map[string]providerWant         // by name
	traits  map[string][]string             // of each device's provider, as written; by name
	memory  map[string]map[string]inventory // shared memory there, as written; by name
}

// nests reports whether a device gets a provider of its own.
func (st *state) nests(d driver.Device) bool {
	return st.mode == ModeNested && d.Type == driver.TypeFPGA && len(d.Deployables) > 1
}

// deviceProvider is the name of the provider of a device with regions.
func deviceProvider(d *deviceRow) string {
	return d.host + "_" + d.spec.Type + "_" + d.spec.ControlPath.Address().String()
}

// regionTraits adds that a region can be programmed, as the specification wants
// it of every region that is not pre-programmed.
func (st *state) regionTraits(part *deployableRow, reported []string) []string {
	if st.mode != ModeNested || part.device.spec.Type != driver.TypeFPGA || part.fixed || slices.Contains(reported, traitProgrammable) {
		return reported
	}
	return append(slices.Clone(reported), traitProgrammable)
}

// regional reports whether a trait is that of a region and not of its device.
func regional(trait string) bool {
	switch trait {
	case traitProgrammable, "CUSTOM_FPGA_COMPUTE", "CUSTOM_FPGA_NETWORK", "CUSTOM_FPGA_STORAGE":
		return true
	}
	return strings.Contains(trait, "_REGION_") || strings.Contains(trait, "_FUNCTION_")
}

func (n *nestedShape) add(ctx context.Context, want providerWant) (made bool, err error) {
	if want.device == "" {
		return n.client.add(ctx, want)
	}
	n.keep(want)
	made, err = n.addRegion(ctx, want)
	if err != nil && !made {
		n.drop(want)
	}
	return made, err
}

// addRegion makes the provider of a device, if it is not there, and that of the
// region.
func (n *nestedShape) addRegion(ctx context.Context, want providerWant) (made bool, err error) {
	made, err = n.client.ensureProvider(ctx, deviceWant(want))
	if err == nil {
		err = n.syncDevice(ctx, want)
	}
	if err != nil {
		return made, err
	}
	madeRegion, err := n.client.add(ctx, want)
	return made || madeRegion, err
}

// deviceWant is the provider of the device of a region. It has no inventory but
// memory that the regions share: the regions are what is given out.
func deviceWant(want providerWant) providerWant {
	return providerWant{uuid: want.parent, name: want.device, parent: want.root}
}

func (n *nestedShape) keep(want providerWant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.regions[want.name] = want
}

// drop forgets a region and answers whether its device has no other.
func (n *nestedShape) drop(want providerWant) (last bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.regions, want.name)
	for _, other := range n.regions {
		if other.device == want.device {
			return false
		}
	}
	return true
}

func (n *nestedShape) change(ctx context.Context, c partChange) error {
	if err := n.client.change(ctx, c); err != nil || c.fresh.device == "" {
		return err
	}
	n.keep(c.fresh)
	return n.syncDevice(ctx, c.fresh)
}

// syncDevice gives the provider of a device the traits that its regions have in
// common as traits of the device.
func (n *nestedShape) syncDevice(ctx context.Context, want providerWant) error {
	n.mu.Lock()
	var wanted []string
	for _, region := range n.regions {
		if region.device == want.device {
			wanted = append(wanted, slices.DeleteFunc(slices.Clone(region.traits), regional)...)
		}
	}
	written := n.traits[want.device]
	n.mu.Unlock()
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	if err := n.syncMemory(ctx, want); err != nil {
		return err
	}
	if slices.Equal(written, wanted) {
		return nil
	}
	add := slices.DeleteFunc(slices.Clone(wanted), func(t string) bool { return slices.Contains(written, t) })
	drop := slices.DeleteFunc(slices.Clone(written), func(t string) bool { return slices.Contains(wanted, t) })
	if err := n.client.changeTraits(ctx, want.parent, add, drop); err != nil {
		return err
	}
	n.mu.Lock()
	n.traits[want.device] = wanted
	n.mu.Unlock()
	n.client.dropTraits(ctx, drop)
	return nil
}

// syncMemory gives the provider of a device the memory that its regions share.
func (n *nestedShape) syncMemory(ctx context.Context, want providerWant) error {
	n.mu.Lock()
	written := n.memory[want.device]
	n.mu.Unlock()
	amounts := memoryAmounts(want.shared, want.reserved > 0)
	if maps.Equal(written, amounts) {
		return nil
	}
	if err := n.client.ensureClasses(ctx, slices.Sorted(maps.Keys(amounts))...); err != nil {
		return err
	}
	version := ""
	if want.reserved > 0 {
		version = "1.26" // before, the total could not be reserved as a whole
	}
	if err := n.client.putAmounts(ctx, want.parent, amounts, version); err != nil {
		return err
	}
	n.mu.Lock()
	n.memory[want.device] = amounts
	n.mu.Unlock()
	for class := range written {
		if _, kept := amounts[class]; !kept {
			n.client.dropClass(ctx, class)
		}
	}
	return nil
}

// remove deletes the provider of a region, and that of its device with the last
// one.
func (n *nestedShape) remove(ctx context.Context, want providerWant) error {
	if err := n.client.remove(ctx, want); err != nil || want.device == "" {
		return err
	}
	if !n.drop(want) {
		return n.syncDevice(ctx, want)
	}
	n.mu.Lock()
	traits, memory := n.traits[want.device], n.memory[want.device]
	delete(n.traits, want.device)
	delete(n.memory, want.device)
	n.mu.Unlock()
	if _, err := n.client.must(ctx, http.MethodDelete, providerPath(want.parent), "", nil, http.StatusNotFound); err != nil {
		return err
	}
	n.client.dropTraits(ctx, traits)
	for class := range memory {
		n.client.dropClass(ctx, class)
	}
	return nil
}

func (n *nestedShape) reserve(ctx context.Context, want providerWant) error {
	if err := (treeShape{n.client}).reserve(ctx, want); err != nil || want.device == "" {
		return err
	}
	return n.syncMemory(ctx, want)
}
