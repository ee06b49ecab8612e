package builtin_test

import (
	"slices"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/builtin"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// claimedHardware is the part of the machine that has everything which a driver claims.
func claimedHardware(t *testing.T, c builtin.Config) sysfs.Description {
	t.Helper()
	all := everything()
	tree := generate(t, all)
	functions, _, err := driver.NewView(tree).PCIFunctions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claimer, ok := load(t, c, tree)[0].(driver.Claimer)
	if !ok {
		return sysfs.Description{}
	}
	claims := claimer.Claims()
	all.Devices = slices.DeleteFunc(all.Devices, func(d sysfs.PCIDevice) bool {
		i := slices.IndexFunc(functions, func(f driver.PCIFunction) bool { return f.Address.String() == d.Address })
		return !slices.ContainsFunc(claims, func(c driver.Claim) bool { return c.Covers(functions[i]) })
	})
	return all
}

func TestEveryDriverPassesTheTestForDrivers(t *testing.T) {
	t.Parallel()
	for _, name := range builtin.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := allOn()
			c.EnabledDrivers = []string{name}
			c.PCI.PassthroughWhitelist = append(c.PCI.PassthroughWhitelist[:1:1], c.PCI.PassthroughWhitelist[0])
			c.PCI.PassthroughWhitelist[1].ProductID = "1521" // the card that the virtual functions are of
			drivertest.Run(t, drivertest.Case{
				Hardware: claimedHardware(t, c),
				New: func(tree driver.Tree) (driver.Driver, error) {
					drivers, err := builtin.New(c, tree)
					if err != nil {
						return nil, err
					}
					return drivers[0], nil
				},
			})
		})
	}
}
