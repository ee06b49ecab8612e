package driver_test

import (
	"path"

	"github.com/gocyborg/gocyborg/driver"
)

// choices turns the bytes of the fuzzer into decisions; after the last one it says zero.
type choices struct{ data []byte }

func (c *choices) below(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	b := c.data[0]
	c.data = c.data[1:]
	return int(b) % n
}

func pick[T any](c *choices, from ...T) T { return from[c.below(len(from))] }

// paths lists all names of a tree.
func paths(tree driver.Tree, dir string) []string {
	entries, err := tree.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []string
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		list = append(list, name)
		if e.IsDir() {
			list = append(list, paths(tree, name)...)
		}
	}
	return list
}
