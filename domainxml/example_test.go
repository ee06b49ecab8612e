package domainxml_test

import (
	"fmt"

	"github.com/gocyborg/gocyborg/domainxml"
)

func ExampleMerge() {
	devices, skipped, err := domainxml.Hostdevs([]domainxml.Handle{
		{ARQ: "a1", Type: "PCI", Info: map[string]any{"domain": "0000", "bus": "3b", "device": "00", "function": "0"}},
		{ARQ: "a2", Type: "MDEV", UUID: "51e314cb-59ee-4896-8b40-54953ee00227"},
		{ARQ: "a3", Type: "TEST_PCI"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	merged, err := domainxml.Merge([]byte(`<domain type="kvm">
  <name>vm</name>
  <devices>
    <console type="pty"/> <!-- kept -->
  </devices>
</domain>`), devices)
	fmt.Printf("%s\n%v\nskipped: %s", merged, err, skipped[0].ARQ)
	// Output:
	// <domain type="kvm">
	//   <name>vm</name>
	//   <devices>
	//     <console type="pty"/> <!-- kept -->
	//     <hostdev mode="subsystem" type="pci" managed="yes">
	//       <source>
	//         <address domain="0x0000" bus="0x3b" slot="0x00" function="0x0"/>
	//       </source>
	//     </hostdev>
	//     <hostdev mode="subsystem" type="mdev" model="vfio-pci" managed="no">
	//       <source>
	//         <address uuid="51e314cb-59ee-4896-8b40-54953ee00227"/>
	//       </source>
	//     </hostdev>
	//   </devices>
	// </domain>
	// <nil>
	// skipped: a3
}

func ExampleHostdevs_error() {
	_, _, err := domainxml.Hostdevs([]domainxml.Handle{
		{ARQ: "5f0c7d0e-3c3b-4c58-a8ce-6e2d2f8e4b10", Type: "PCI", Info: map[string]any{"domain": "0000", "bus": "13b", "device": "00", "function": "0"}},
	})
	fmt.Println(err)
	// Output:
	// domainxml: unusable attach handle of accelerator request 5f0c7d0e-3c3b-4c58-a8ce-6e2d2f8e4b10 (type "PCI"): bus: "13b" does not fit in 8 bits
}

func ExampleRead() {
	merged, err := domainxml.Merge(domainxml.NewDomain(domainxml.DomainOpts{Name: "vm"}),
		[]domainxml.Hostdev{{PCI: &domainxml.PCIAddress{Bus: 0x3b}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	devices, err := domainxml.Read(merged)
	fmt.Println(devices[0], err)
	// Output:
	// pci 0000:3b:00.0 <nil>
}

func ExampleComplete() {
	devices := []domainxml.Hostdev{{PCI: &domainxml.PCIAddress{Bus: 0x3b}}, {MDEV: "51e314cb-59ee-4896-8b40-54953ee00227"}}
	saved, err := domainxml.Merge(domainxml.NewDomain(domainxml.DomainOpts{Name: "vm"}), devices[:1])
	if err != nil {
		fmt.Println(err)
		return
	}
	diff, _ := domainxml.Diff(saved, devices)
	fmt.Println("missing:", diff.Missing)
	full, err := domainxml.Complete(saved, devices)
	if err != nil {
		fmt.Println(err)
		return
	}
	diff, _ = domainxml.Diff(full, devices)
	fmt.Println("missing:", diff.Missing)
	// Output:
	// missing: [mdev 51e314cb-59ee-4896-8b40-54953ee00227]
	// missing: []
}

func ExampleInterfaces() {
	devices, _, err := domainxml.Interfaces([]domainxml.PortHandle{{
		Handle: domainxml.Handle{ARQ: "a1", Type: "PCI", Info: map[string]any{"domain": "0000", "bus": "0c", "device": "0", "function": "1"}},
		MAC:    "52:54:00:1e:59:c3", VLAN: 100,
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	document, err := domainxml.AttachXML(devices[0])
	fmt.Print(string(document), err)
	// Output:
	// <interface type="hostdev" managed="yes">
	//   <mac address="52:54:00:1e:59:c3"/>
	//   <source>
	//     <address type="pci" domain="0x0000" bus="0x0c" slot="0x00" function="0x1"/>
	//   </source>
	//   <vlan>
	//     <tag id="100"/>
	//   </vlan>
	// </interface>
	// <nil>
}

func ExampleNodeDeviceOf() {
	device, err := domainxml.NodeDeviceOf(domainxml.Handle{
		ARQ: "a1", Type: "MDEV", UUID: "51e314cb-59ee-4896-8b40-54953ee00227",
		Info: map[string]any{"domain": "0000", "bus": "10", "device": "1", "function": "0", "asked_type": "nvidia-223"},
	}, "")
	device.Lifetime = domainxml.LifetimeAutostart // as Nova 34 does
	fmt.Println(device.Name, device.Lifetime.Virsh())
	fmt.Print(string(device.XML()), err)
	// Output:
	// mdev_51e314cb_59ee_4896_8b40_54953ee00227_0000_10_01_0 [nodedev-define nodedev-autostart nodedev-start]
	// <device>
	//   <parent>pci_0000_10_01_0</parent>
	//   <capability type="mdev">
	//     <type id="nvidia-223"/>
	//     <uuid>51e314cb-59ee-4896-8b40-54953ee00227</uuid>
	//   </capability>
	// </device>
	// <nil>
}
