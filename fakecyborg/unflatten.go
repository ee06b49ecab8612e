package fakecyborg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/layout"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// UnflattenOpts says which data of a compute provider belong to Cyborg. A name that ends with "*"
// matches all names with that prefix.
type UnflattenOpts struct {
	// DryRun finds out and changes nothing.
	DryRun bool
	// Classes are resource classes in addition to the classes that Cyborg's drivers report and
	// the Rocky specification names. VGPU is included only for a provider with OWNER_CYBORG and
	// without any other of these classes: without nested providers Nova had its own vGPUs on the
	// same provider.
	Classes []string
	// Traits are traits; nil means the traits that Cyborg's drivers report.
	Traits []string
}

// The defaults of UnflattenOpts.
var (
	flatClasses = []string{"CUSTOM_ACCELERATOR_*", "CUSTOM_AICHIP", "CUSTOM_NIC", "CUSTOM_PCI", "CUSTOM_QAT", "CUSTOM_SSD", "FPGA", "PGPU"}
	flatTraits  = []string{
		"CUSTOM_AICHIP_*", "CUSTOM_FAKE_DEVICE", "CUSTOM_FPGA_*", "CUSTOM_GPU_*", "CUSTOM_HPTS_*", "CUSTOM_MDEV_*", "CUSTOM_NVIDIA_*",
		"CUSTOM_PCI_*", "CUSTOM_PF", "CUSTOM_PROGRAMMABLE", "CUSTOM_QAT_*", "CUSTOM_SSD_*", "CUSTOM_VF", "CUSTOM_VGPU_*", "OWNER_CYBORG",
	}
)

// Unflattened is what was found, and unless it was a dry run removed, on one
// compute provider.
type Unflattened struct {
	Provider, Name  string
	Classes, Traits []string
}

// Unflatten is the upgrade from [ModeFlat] to one of the other modes, against any Placement from
// microversion 1.26: it removes Cyborg's classes and traits from all compute providers with such a class or
// OWNER_CYBORG, so that
// the next report of each agent builds the tree. Nothing is changed while an instance has an
// accelerator there; the error then matches [ErrAllocated] and names providers and instances.
// Everything else on the providers stays, including concurrent changes.
//
// With another error, the result is what was removed before it.
func Unflatten(ctx context.Context, placement sim.Endpoint, opts UnflattenOpts) ([]Unflattened, error) {
	opts.Classes = slices.Concat(flatClasses, opts.Classes)
	if opts.Traits == nil {
		opts.Traits = flatTraits
	}
	u := unflattening{
		client: &layout.Client{Peer: simhttp.Peer{Endpoint: placement, Agent: "cyborg-unflatten"}}, opts: opts,
	}
	found, err := u.find(ctx)
	if err != nil || opts.DryRun {
		return found, err
	}
	for i, f := range found {
		if err := u.clear(ctx, f); err != nil {
			return found[:i], failed(err, "unflatten resource provider %s (%s)", f.Name, f.Provider)
		}
	}
	for _, f := range found {
		u.client.DropTraits(ctx, f.Traits...)
		u.client.DropClasses(ctx, f.Classes...)
	}
	return found, nil
}

type unflattening struct {
	client *layout.Client
	opts   UnflattenOpts
}

// find inspects every root provider. The error matches ErrAllocated if an accelerator is allocated.
func (u unflattening) find(ctx context.Context) ([]Unflattened, error) {
	list, err := u.client.List(ctx, "", "1.14")
	if err != nil {
		return nil, failed(err, "unflatten: list resource providers")
	}
	var found []Unflattened
	var busy []error
	for _, p := range list {
		if p.Parent != "" {
			continue // only a flat host has Cyborg's things on its root
		}
		f, users, err := u.inspect(ctx, p)
		if err != nil {
			return nil, failed(err, "unflatten resource provider %s (%s)", p.Name, p.UUID)
		}
		if len(users) > 0 {
			err := fmt.Errorf("%w by %s", ErrAllocated, strings.Join(users, ", "))
			busy = append(busy, failed(err, "unflatten resource provider %s (%s)", p.Name, p.UUID))
		}
		if len(f.Classes)+len(f.Traits) > 0 {
			found = append(found, f)
		}
	}
	return found, errors.Join(busy...)
}

// inspect finds what is Cyborg's on a provider, and the consumers of its classes.
func (u unflattening) inspect(ctx context.Context, p layout.Provider) (Unflattened, []string, error) {
	f := Unflattened{Provider: p.UUID, Name: p.Name}
	var inventories struct {
		Inventories map[string]any `json:"inventories"`
	}
	if err := u.client.Get(ctx, layout.ProviderPath(p.UUID)+"/inventories", "1.26", &inventories); err != nil {
		return f, nil, err
	}
	f.Classes = pick(slices.Sorted(maps.Keys(inventories.Inventories)), u.opts.Classes)
	traits, err := u.client.Traits(ctx, p.UUID)
	if err != nil {
		return f, nil, err
	}
	if len(f.Classes) == 0 {
		if !slices.Contains(traits, driver.TraitOwnerCyborg) { // no flat host: traits of the same names are others'
			return f, nil, nil
		}
		if _, vgpu := inventories.Inventories["VGPU"]; vgpu { // of what else would it be the owner?
			f.Classes = []string{"VGPU"}
		}
	}
	slices.Sort(traits)
	f.Traits = pick(traits, u.opts.Traits)
	users, err := u.users(ctx, p.UUID, f.Classes)
	return f, users, err
}

// pick keeps the names that fit one of the patterns.
func pick(names, patterns []string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return !slices.ContainsFunc(patterns, func(pattern string) bool {
			prefix, open := strings.CutSuffix(pattern, "*")
			return name == pattern || open && strings.HasPrefix(name, prefix)
		})
	})
}

// users lists the consumers of a provider that have one of the classes.
func (u unflattening) users(ctx context.Context, uuid string, classes []string) ([]string, error) {
	var body struct {
		Allocations map[string]struct {
			Resources map[string]int `json:"resources"`
		} `json:"allocations"`
	}
	if err := u.client.Get(ctx, layout.ProviderPath(uuid)+"/allocations", "1.26", &body); err != nil {
		return nil, err
	}
	var users []string
	for _, consumer := range slices.Sorted(maps.Keys(body.Allocations)) {
		for class := range body.Allocations[consumer].Resources {
			if slices.Contains(classes, class) {
				users = append(users, consumer)
				break
			}
		}
	}
	return users, nil
}

// clear removes what was found. OWNER_CYBORG and the classes come last, so that a partly cleared
// provider is found again. Placement refuses to delete an inventory that has become allocated;
// then the traits are restored.
func (u unflattening) clear(ctx context.Context, f Unflattened) error {
	owner := []string{driver.TraitOwnerCyborg}
	others := slices.DeleteFunc(slices.Clone(f.Traits), func(trait string) bool { return trait == driver.TraitOwnerCyborg })
	if err := u.client.ChangeTraits(ctx, f.Provider, nil, others); err != nil {
		return err
	}
	for _, class := range f.Classes {
		if _, err := u.client.Must(ctx, http.MethodDelete, layout.InventoryPath(f.Provider, class), "1.26", nil, http.StatusNotFound); err != nil {
			return errors.Join(err, u.client.ChangeTraits(context.WithoutCancel(ctx), f.Provider, others, nil))
		}
	}
	if len(others) == len(f.Traits) {
		return nil
	}
	return u.client.ChangeTraits(ctx, f.Provider, nil, owner)
}
