package discover

import (
	"cmp"
	"context"
	"path"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

// makableVGPU is a type of vGPUs without mediated devices that a card has room for.
type makableVGPU struct {
	card string
	driver.VGPUType
}

// findVGPUTypes lists the types of the cards without offered virtual functions. A card offers
// only the types that are enabled for it.
func (d *discovery) findVGPUTypes(ctx context.Context, tree driver.Tree, reports []driver.Report) error {
	offered := make(map[string]bool)
	for _, report := range reports {
		for _, device := range report.Devices {
			offered[device.ControlPath.Address().String()] = true
		}
	}
	view := driver.NewView(tree)
	functions, _, _ := view.PCIFunctions(ctx) // what cannot be read is in the list of problems
	for _, f := range functions {
		card, err := view.Readlink(f.Dir() + "/physfn")
		if card = path.Base(card); err != nil || offered[card] {
			continue
		}
		types, _ := driver.CreatableVGPUs(view, f.Address) // most functions have none
		for _, t := range types {
			if row := (makableVGPU{card, t}); !slices.Contains(d.vgpuTypes, row) {
				d.vgpuTypes = append(d.vgpuTypes, row)
			}
		}
	}
	slices.SortStableFunc(d.vgpuTypes, func(a, b makableVGPU) int { return cmp.Or(cmp.Compare(a.card, b.card), cmp.Compare(a.ID, b.ID)) })
	return ctx.Err()
}
