package nvidia

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/driver"
)

// Stats counts the mediated devices of each card that is configured for vGPUs, as
// ADDRESS.existing, ADDRESS.available and ADDRESS.foreign, the last for those of other
// types. The error is that of a card that cannot be read.
func (d *Driver) Stats(ctx context.Context) (map[string]int64, error) {
	stats := make(map[string]int64)
	for _, address := range slices.SortedFunc(maps.Keys(d.types), driver.PCIAddress.Compare) {
		card := address.String()
		capacity, problem := driver.ReadMdevCapacity(d.tree, driver.MdevParentTypes(card), d.types[address])
		if problem != nil {
			problem.Address = card
			return nil, fmt.Errorf("nvidia: stats: %w", *problem)
		}
		stats[card+".existing"] = int64(capacity.Existing)
		stats[card+".available"] = int64(capacity.Available)
		stats[card+".foreign"] = int64(capacity.Foreign)
	}
	return stats, ctx.Err()
}
