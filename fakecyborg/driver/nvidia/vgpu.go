package nvidia

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/driver"
)

// maxInstances is far above what any card holds; a larger number is a garbled file.
const maxInstances = 1024

// fileError is an error about one file.
type fileError struct {
	file string
	err  error
}

func (e *fileError) Error() string { return e.file + ": " + e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// divided is a GPU given away in mediated devices of one type. What exists counts as
// much as what could be made, or the capacity would shrink with every guest.
func (d *Driver) divided(c card, typ string) (driver.Deployable, error) {
	if !slices.Contains(c.MdevTypes, typ) {
		return driver.Deployable{}, fmt.Errorf("%w: Invalid requested vGPU type: %s", ErrType, typ)
	}
	dir := c.Dir() + "/" + driver.MdevTypesDir + "/" + typ
	available, err := driver.ReadCount(d.tree, dir+"/available_instances", maxInstances)
	if err != nil {
		return driver.Deployable{}, &fileError{dir + "/available_instances", err}
	}
	trait, err := d.vgpuTrait(c, dir+"/name")
	if err != nil {
		return driver.Deployable{}, err
	}
	p := d.deployable(c, "VGPU", trait)
	p.NumAccelerators = available + existing(c, typ)
	p.AttachHandles = vgpuHandles(c.Address, typ, p.NumAccelerators)
	return p, nil
}

func existing(c card, typ string) int {
	n := 0
	for _, m := range c.Mdevs {
		if m.Type == typ {
			n++
		}
	}
	return n
}

// vgpuTrait names product and type. The type's part is the second word of its name: T4-1B
// of "GRID T4-1B". A name of one word counts as a whole.
func (d *Driver) vgpuTrait(c card, file string) (string, error) {
	text, err := driver.ReadText(d.tree, file)
	if err != nil {
		return "", &fileError{file, err}
	}
	words := strings.Fields(text)
	trait, err := driver.CustomName("NVIDIA", c.ProductID(), words[min(1, len(words)-1)])
	if err != nil {
		return "", &fileError{file, err}
	}
	return trait, nil
}

// vgpuHandles makes as many handles as there are instances. The mark tells them apart.
func vgpuHandles(address driver.PCIAddress, typ string, count int) []driver.AttachHandle {
	handles := make([]driver.AttachHandle, count)
	for i := range handles {
		info := address.Info()
		info["asked_type"] = typ
		info["vgpu_mark"] = fmt.Sprintf("%s_%d", typ, i)
		handles[i] = driver.AttachHandle{Type: driver.HandleMDEV, Info: info}
	}
	return handles
}
