package sysfs

import (
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/driver"
)

// Mdevs returns the mediated devices that a tree shows, ordered by uuid. A machine whose
// kernel knows no mdev bus has none. What cannot be read is an error, since a device
// overlooked would be one leaked.
func Mdevs(tree driver.Tree) ([]driver.Mdev, error) {
	view := driver.NewView(tree)
	var list []driver.Mdev
	var faults []error
	names := func(dir string) []string {
		names, err := view.Names(dir)
		if err != nil {
			faults = append(faults, fmt.Errorf("sysfs: list mediated devices: %s: %w", dir, err))
		}
		return names
	}
	for _, parent := range names(dirMdevBus) {
		types := dirMdevBus + "/" + parent + "/" + mdevTypes
		for _, typ := range names(types) {
			for _, id := range names(types + "/" + typ + "/devices") {
				list = append(list, driver.Mdev{UUID: id, Parent: parent, Type: typ})
			}
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	sortMdevs(list)
	return list, nil
}
