package sysfs

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/gocyborg/gocyborg/driver"
)

// Mdevs returns the mediated devices that a tree shows, ordered by uuid. A machine whose
// kernel knows no mdev bus has none. What cannot be read is an error, since a device
// overlooked would be one leaked.
func Mdevs(tree driver.Tree) ([]driver.Mdev, error) {
	var list []driver.Mdev
	parents, err := names(tree, dirMdevBus)
	if err != nil {
		return nil, err
	}
	for _, parent := range parents {
		types, err := names(tree, dirMdevBus+"/"+parent+"/"+mdevTypes)
		if err != nil {
			return nil, err
		}
		for _, typ := range types {
			ids, err := names(tree, dirMdevBus+"/"+parent+"/"+mdevTypes+"/"+typ+"/devices")
			if err != nil {
				return nil, err
			}
			for _, id := range ids {
				list = append(list, driver.Mdev{UUID: id, Parent: parent, Type: typ})
			}
		}
	}
	sortMdevs(list)
	return list, nil
}

// names lists a directory; one that is not there is empty.
func names(tree driver.Tree, dir string) ([]string, error) {
	entries, err := tree.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sysfs: list mediated devices: %w", err)
	}
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.Name()
	}
	return list, nil
}
