package pci

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	name       = "pci"
	baseBridge = 0x06
	netDir     = "class/net"
)

// Config is the configuration of the driver. Upstream's option is named with each field.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host).
	Host string `json:"host"`
	// PassthroughWhitelist lists what is offered ([pci] passthrough_whitelist). An empty
	// one offers nothing.
	PassthroughWhitelist Whitelist `json:"passthrough_whitelist,omitempty"`
	// Policy has the options that all drivers have. AllowedDrivers says nothing here: an
	// entry of the whitelist admits a function whatever kernel driver is bound to it.
	driver.Policy
}

// Driver offers the whitelisted PCI functions of one host.
type Driver struct {
	config   Config
	matchers []matcher
	tree     driver.Tree
}

var (
	_ driver.TreeDriver = (*Driver)(nil)
	_ driver.Claimer    = (*Driver)(nil)
)

// New returns the driver for a host's tree. The error wraps ErrConfig and names the
// entry of the whitelist.
func New(config Config, tree driver.Tree) (*Driver, error) {
	if config.Host == "" {
		return nil, fmt.Errorf("%w: no host name", ErrConfig)
	}
	if err := config.Policy.Check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	d := &Driver{config: config, tree: tree}
	for i, spec := range config.PassthroughWhitelist {
		m, err := newMatcher(spec)
		if err != nil {
			return nil, fmt.Errorf("%w: passthrough_whitelist entry %d: %w", ErrConfig, i, err)
		}
		d.matchers = append(d.matchers, m)
	}
	return d, nil
}

// Name returns "pci".
func (d *Driver) Name() string { return name }

// Tree implements driver.TreeDriver.
func (d *Driver) Tree() driver.Tree { return d.tree }

// Claims implements driver.Claimer: one claim for each entry of the whitelist.
func (d *Driver) Claims() []driver.Claim {
	claims := make([]driver.Claim, 0, len(d.matchers))
	for i, m := range d.matchers {
		vendor, _ := driver.ParseHex(m.vendor, 4) // zero for the wildcard
		product, _ := driver.ParseHex(m.product, 4)
		claims = append(claims, driver.Claim{
			Vendor: uint16(vendor), Product: uint16(product), Why: fmt.Sprintf("passthrough_whitelist entry %d", i),
		})
	}
	return claims
}

// Discover reports the whitelisted functions. Without a whitelist it looks at nothing.
// The error is that of ctx.
func (d *Driver) Discover(ctx context.Context) (driver.Report, error) {
	return d.DiscoverIn(ctx, driver.NewView(d.tree))
}

// DiscoverIn implements driver.TreeDriver.
func (d *Driver) DiscoverIn(ctx context.Context, view driver.Tree) (driver.Report, error) {
	if len(d.matchers) == 0 {
		return driver.Report{}, ctx.Err()
	}
	functions, problems, err := driver.PCIFunctions(ctx, view)
	if err != nil {
		return driver.Report{}, fmt.Errorf("pci: discover: %w", err)
	}
	v := &visit{Driver: d, view: view, report: driver.Report{Problems: problems}}
	interfaces := v.interfaces()
	functions = slices.DeleteFunc(functions, func(f driver.PCIFunction) bool { return !d.admits(f, interfaces) })
	states, problems := driver.PCIStates(view, functions)
	v.report.Problems = append(v.report.Problems, problems...)
	for _, f := range states {
		if err := ctx.Err(); err != nil {
			return driver.Report{}, fmt.Errorf("pci: discover: %w", err)
		}
		v.offer(f)
	}
	return v.report, nil
}

// visit is one discovery under way.
type visit struct {
	*Driver
	view   driver.Tree
	report driver.Report
}

func (d *Driver) admits(f driver.PCIFunction, interfaces map[string]driver.PCIAddress) bool {
	for _, m := range d.matchers {
		if m.fits(f, interfaces) {
			return true
		}
	}
	return false
}

// interfaces finds the functions of the network interfaces that the whitelist names.
func (v *visit) interfaces() map[string]driver.PCIAddress {
	found := make(map[string]driver.PCIAddress)
	for _, m := range v.matchers {
		if m.devName == "" {
			continue
		}
		file := path.Join(netDir, m.devName, "device")
		target, err := v.view.Readlink(file)
		if err == nil {
			found[m.devName], err = driver.ParsePCIAddress(path.Base(target))
		}
		if err != nil {
			delete(found, m.devName)
			v.report.Problems = append(v.report.Problems, driver.Problem{File: file,
				Err: fmt.Errorf("%w: devname %s has no PCI function: %w", ErrConfig, m.devName, err)})
		}
	}
	return found
}

// offer reports one function, or why it must not be.
func (v *visit) offer(f driver.PCIFunctionState) {
	address := f.Address.String()
	verdict := v.judge(f)
	if len(verdict.Problems) > 0 {
		v.report.Problems = append(v.report.Problems, verdict.Problems...)
		return
	}
	if verdict.Refusal != "" {
		v.report.LeftOut = append(v.report.LeftOut, driver.LeftOut{Address: address, Driver: name, Reason: verdict.Refusal})
		return
	}
	device, err := v.device(f.PCIFunction)
	if err != nil {
		v.report.Problems = append(v.report.Problems, driver.Problem{Address: address, Err: err})
		return
	}
	if verdict.Warning != "" {
		v.report.Warnings = append(v.report.Warnings, driver.Warning{Address: address, Driver: name, Reason: verdict.Warning})
	}
	v.report.Devices = append(v.report.Devices, device)
}

// judge says why a function must not be offered.
func (v *visit) judge(f driver.PCIFunctionState) driver.Verdict {
	if f.DeviceClass()>>8 == baseBridge {
		return driver.Verdict{Refusal: "a bridge cannot be given to a guest"}
	}
	return v.config.Judge(v.view, f.PCIFunction, f.PCIState, f.Driver)
}

// device is a function as upstream reports it: a GPU, whatever it is.
func (d *Driver) device(f driver.PCIFunction) (driver.Device, error) {
	shipped := []string{driver.TraitOwnerCyborg}
	vendor := vendorName(f.Vendor)
	if vendor != "" {
		shipped = append(shipped, "CUSTOM_PCI_"+vendor)
	} else {
		vendor = strings.ToUpper(f.VendorID())
	}
	product, err := driver.CustomName("PCI", "PRODUCT", "ID", f.ProductID())
	if err != nil {
		return driver.Device{}, err
	}
	attributes, err := d.config.Attributes(driver.Subject{
		Type: driver.TypeGPU, Vendor: vendor, ProductID: f.ProductID(),
		Shipped: append(shipped, product), ShippedClass: "CUSTOM_PCI",
	})
	if err != nil {
		return driver.Device{}, err
	}
	device := driver.Device{
		Vendor:          f.VendorID(),
		Model:           f.ProductID(),
		Type:            driver.TypeGPU,
		StdBoardInfo:    fmt.Sprintf(`{"product_id": "%s", "controller": null}`, f.ProductID()),
		VendorBoardInfo: "miss_vb_info",
		ControlPath:     f.Address.ControlPath(),
		Deployables: []driver.Deployable{{
			Name:            d.config.Host + "_" + f.Address.String(),
			NumAccelerators: 1,
			DriverName:      vendor,
			Attributes:      attributes,
			AttachHandles:   []driver.AttachHandle{{Type: driver.HandlePCI, Info: f.Address.Info()}},
		}},
	}
	return device, d.config.AddMemory(&device, f.Address)
}

// vendorName knows the vendors that upstream's driver knows, in the form of a trait.
func vendorName(vendor uint16) string {
	switch vendor {
	case 0x10de:
		return "NVIDIA"
	case 0x102b:
		return "MATROX"
	case 0x8086:
		return "INTEL"
	case 0x1bd4:
		return "INSPUR"
	case 0x10ee:
		return "XILINX"
	case 0x19e5:
		return "HUAWEI"
	}
	return ""
}
