// Package nic finds Intel's network cards of the X710 series in a sysfs tree and offers them as
// PCI devices: the whole port, or each of its virtual functions, with the physical network it is
// connected to and the function it has.
//
// It does not configure interfaces, create virtual functions or load packages into the
// card. A port or virtual function with an interface that is up is used by the host; the
// virtual functions of such a port are offered. A port that is bound to its kernel driver and
// shows no interface is also skipped: the interface may be up in the network namespace of a
// container, or the tree was captured without it. If Policy.AllowedDrivers names the driver, such
// a port is offered.
//
// The driver claims 8086:1572 (X710 for 10GbE SFP+), 8086:158a (XXV710 for 25GbE backplane) and
// 8086:158b (XXV710 for 25GbE SFP28), as upstream does, with all their virtual functions, and
// 8086:154c and 8086:1571, the virtual functions of the series, if their physical function is not
// visible, as in a guest. The virtual functions of other physical functions belong to the driver
// of those. Functions bound to these kernel drivers are offered: i40e, iavf, i40evf, vfio-pci,
// none, and the drivers in Policy.AllowedDrivers.
//
// The traits CUSTOM_PF or CUSTOM_VF, CUSTOM_<FUNCTION> and CUSTOM_<PHYSNET> are reported in
// every trait shape, since device profiles select ports by them, and the attach handle has the
// field physical_network, which Nova's accelerator ports need. A port without a mapping
// has neither network nor function. The mappings name interfaces of ports; their virtual
// functions share them. A mapping to an interface that no claimed port has is a problem in the report.
// A port that a guest has shows no interface. It is reported as hidden, see [driver.Deployable],
// and agents keep its traits and its network.
//
// It follows cyborg/accelerator/drivers/nic/intel/driver.py and sysinfo.py of Cyborg
// 2026.2 and the sections [nic_devices] and [x710_static] of its configuration. The
// deployables' driver name is "intel_nic", where upstream's three Intel drivers share
// "intel".
//
//	networks, err := nic.ParseMappings("physnet1:eth2|eth3")
//	d, err := nic.New(nic.Config{Host: "compute1", EnabledNICTypes: []nic.Type{
//		{Name: "x710_static", PhysicalDeviceMappings: networks},
//	}}, tree)
//	report, err := d.Discover(ctx)
package nic
