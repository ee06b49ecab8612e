package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver/internal/file"
)

// VGPU is a vGPU without a mediated device: a virtual function of a card of NVIDIA's and the id of
// the type that is written to it.
type VGPU struct {
	Function PCIAddress
	// Type is such as 1155. In configurations and in handles it is "nvidia-1155", the form of a
	// mediated device's type.
	Type int
}

const (
	prefixVGPUType = "nvidia-"
	keyAskedType   = "asked_type"
	maxVGPUType    = 1<<31 - 1
)

// ParseVGPUType returns the id of a type, 1155 of "nvidia-1155".
func ParseVGPUType(text string) (int, error) {
	number, found := strings.CutPrefix(text, prefixVGPUType)
	id, err := strconv.Atoi(number)
	if !found || err != nil || id < 1 || id > maxVGPUType || strconv.Itoa(id) != number {
		return 0, fmt.Errorf("%w: vGPU type %q is not %s and a number", ErrConfig, text, prefixVGPUType)
	}
	return id, nil
}

// Handle returns the attach handle: a PCI function that keeps its kernel driver (managed is
// "false"), since libvirt must not rebind it.
func (v VGPU) Handle() AttachHandle {
	info := maps.Clone(v.Function.Info())
	info[FieldManaged], info[keyAskedType] = "false", prefixVGPUType+strconv.Itoa(v.Type)
	return AttachHandle{Type: HandlePCI, Info: info}
}

// VGPU returns the vGPU of a PCI handle with an asked_type; found is false for any other handle.
// The error wraps ErrHandle.
func (h AttachHandle) VGPU() (v VGPU, found bool, err error) {
	asked := h.Info[keyAskedType]
	if h.Type != HandlePCI || asked == "" {
		return VGPU{}, false, nil
	}
	v.Function, err = PCIAddressOf(h.Info)
	if err == nil {
		v.Type, err = ParseVGPUType(asked)
	}
	if err != nil {
		return VGPU{}, true, fmt.Errorf("%w: vGPU: %w", ErrHandle, err)
	}
	return v, true, nil
}

// VGPUDriver is implemented by drivers whose handles are vGPUs without mediated devices.
type VGPUDriver interface {
	// SetVGPU gives the function the type. A function with a type belongs to another program and
	// is not changed, unless it was bound before and has this type.
	SetVGPU(ctx context.Context, v VGPU, bound bool) error
	// ClearVGPU takes the type from the function. A function without a type, or with another
	// program's type, is not an error.
	ClearVGPU(ctx context.Context, v VGPU) error
}

// VGPUFile is the file of a tree that has the type of a function, as a number, 0 for none.
func VGPUFile(function PCIAddress) string {
	return PCIFunction{Address: function}.Dir() + "/" + vgpuDir + "/current_vgpu_type"
}

const vgpuDir = "nvidia"

// CurrentVGPU reads the id of the type that a function has. It is 0 for none, and for a function
// without such types. The error is a Problem.
func CurrentVGPU(view *View, function PCIAddress) (int, error) {
	name := VGPUFile(function)
	id, err := view.ReadCount(name, maxVGPUType)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, Problem{Address: function.String(), File: name, Err: err}
	}
	return id, nil
}

// VGPUFunctions manages the virtual functions of a tree that have vGPU types. A driver that embeds it is a
// VGPUDriver.
type VGPUFunctions struct{ tree Tree }

var _ VGPUDriver = VGPUFunctions{}

// NewVGPUFunctions returns the functions of a tree.
func NewVGPUFunctions(tree Tree) VGPUFunctions { return VGPUFunctions{tree} }

// SetVGPU implements VGPUDriver. Errors wrap fs.ErrExist for a function that has a type, and the
// kernel's error for a type that it refuses, such as syscall.ENOSPC.
func (f VGPUFunctions) SetVGPU(ctx context.Context, v VGPU, bound bool) error {
	current, err := f.current(ctx, v)
	switch {
	case err != nil:
		return err
	case bound && current == v.Type:
		return nil
	case current != 0:
		return fmt.Errorf("set vGPU type %d of %s: %w: it has type %d, set by another program", v.Type, v.Function, fs.ErrExist, current)
	}
	return f.write(v, "set", v.Type)
}

// ClearVGPU implements VGPUDriver. The error wraps the kernel's error: fs.ErrPermission or
// syscall.EBUSY while a guest has the function.
func (f VGPUFunctions) ClearVGPU(ctx context.Context, v VGPU) error {
	current, err := f.current(ctx, v)
	if err != nil || current != v.Type {
		return err
	}
	return f.write(v, "clear", 0)
}

func (f VGPUFunctions) current(ctx context.Context, v VGPU) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return CurrentVGPU(NewView(f.tree), v.Function)
}

func (f VGPUFunctions) write(v VGPU, verb string, id int) error {
	if err := f.tree.WriteFile(VGPUFile(v.Function), []byte(strconv.Itoa(id))); err != nil {
		return fmt.Errorf("%s vGPU type %d of %s: %w", verb, v.Type, v.Function, file.Cause(err))
	}
	return nil
}

// VGPUType is a type that a card lists.
type VGPUType struct {
	ID   int
	Name string
}

// CreatableVGPUs lists the types for which a function has room. The list of a full card is empty. The
// error is a Problem; it wraps fs.ErrNotExist for a function without vGPUs.
func CreatableVGPUs(view *View, function PCIAddress) ([]VGPUType, error) {
	name := PCIFunction{Address: function}.Dir() + "/" + vgpuDir + "/creatable_vgpu_types"
	data, err := view.ReadFile(name)
	var types []VGPUType
	for line := range strings.Lines(string(data)) {
		number, label, found := strings.Cut(line, ":")
		number, label = strings.TrimSpace(number), strings.TrimSpace(label)
		if number == "ID" || number == "" && !found { // the header, which some drivers leave out
			continue
		}
		id, convErr := strconv.Atoi(number)
		if convErr != nil || id < 1 || label == "" {
			err = cmp.Or(err, garbled(strings.TrimSpace(line)))
			break
		}
		types = append(types, VGPUType{id, label})
	}
	if err != nil {
		return nil, Problem{Address: function.String(), File: name, Err: file.Cause(err)}
	}
	return types, nil
}
