package fpga

import (
	"context"

	"github.com/gocyborg/gocyborg/driver"
)

// Inspur finds the FPGA cards of Inspur. They cannot be programmed through it: upstream's
// driver does not, either.
type Inspur struct {
	base
}

var _ driver.Claimer = (*Inspur)(nil)

// NewInspur returns the driver for a host's tree. The error wraps driver.ErrConfig and joins all
// faults.
func NewInspur(config Config, tree driver.Tree) (*Inspur, error) {
	b, err := newBase("INSPUR", config)
	if err != nil {
		return nil, err
	}
	d := &Inspur{b}
	d.TreeReader = driver.NewTreeReader("inspur_fpga", tree, d.discover)
	return d, nil
}

// Claims is Inspur's vendor id with the class of processing accelerators: its NVMe disks
// have the same vendor and another class.
func (d *Inspur) Claims() []driver.Claim {
	return []driver.Claim{{Vendor: vendorInspur, Class: classAccelerator, Why: "Inspur processing accelerator"}}
}

func (d *Inspur) discover(ctx context.Context, view *driver.View) (driver.Report, error) {
	v, err := d.visit(ctx, view, d.Claims()[0].Covers)
	if err != nil {
		return driver.Report{}, err
	}
	for _, c := range v.cards {
		v.inspurCard(c)
	}
	return v.finish(ctx)
}

func (v *visit) inspurCard(c *driver.Unit) {
	functions := v.assignableFunctions(c, readable(c))
	if len(functions) == 0 {
		return
	}
	subject := v.wholeSubject("inspur", c.Address, c.PCIFunction)
	subject.Shipped = []string{"CUSTOM_FPGA_INSPUR", productTrait(c.PCIFunction)}
	v.offerWhole(c, "Inspur Electronic Information Industry Co., Ltd. Device", c.ProductID(), len(functions), functions, subject)
}
