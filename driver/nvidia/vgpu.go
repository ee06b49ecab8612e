package nvidia

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
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
func (v *visit) divided(c card, typ string) (driver.Deployable, error) {
	if !slices.Contains(c.MdevTypes, typ) {
		return driver.Deployable{}, fmt.Errorf("%w: Invalid requested vGPU type: %s", ErrType, typ)
	}
	dir := c.Dir() + "/" + driver.MdevTypesDir + "/" + typ
	available, err := driver.ReadCount(v.view, dir+"/available_instances", maxInstances)
	if err != nil {
		return driver.Deployable{}, &fileError{dir + "/available_instances", err}
	}
	subject, err := v.vgpu(c, dir+"/name")
	if err != nil {
		return driver.Deployable{}, err
	}
	p, err := v.deployable(c, subject)
	if err != nil {
		return driver.Deployable{}, err
	}
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

// vgpu is a card divided in instances of a type. The type's part of the trait is the
// second word of its name: T4-1B of "GRID T4-1B". A name of one word counts as a whole.
func (v *visit) vgpu(c card, file string) (driver.Subject, error) {
	text, err := driver.ReadText(v.view, file)
	if err != nil {
		return driver.Subject{}, &fileError{file, err}
	}
	words := strings.Fields(text)
	word := words[min(1, len(words)-1)]
	trait, err := driver.CustomName("NVIDIA", c.ProductID(), word)
	if err != nil {
		return driver.Subject{}, &fileError{file, err}
	}
	subject := v.subject(c, "VGPU", trait)
	subject.VGPUType = word
	return subject, nil
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
