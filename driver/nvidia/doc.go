// Package nvidia finds NVIDIA GPUs in a sysfs tree. It offers whole GPUs as PCI devices, and
// vGPUs as mediated devices or, on cards without them, as virtual functions with a vGPU type.
//
// It compares vendor and class ids instead of searching the text of lspci. It never
// offers a virtual function as a whole GPU, nor a physical function that has virtual
// functions or mediated devices, nor the display of the host; those are listed as left
// out. It does not load drivers, enable SR-IOV or configure MIG, and does not call
// vendor tools.
//
// Upstream has no vGPUs without mediated devices. Each type that is configured for a card is a
// deployable of as many virtual functions as are configured, in the order of addresses. The kernel's
// refusal of a type fails the bind.
//
// It follows cyborg/accelerator/drivers/gpu/nvidia/driver.py, gpu/nvidia/sysinfo.py and
// gpu/utils.py of Cyborg 2026.2: names, traits, resource classes, handles, configuration
// and its error texts. An mdev type that a card lacks is a problem of that card here;
// upstream fails the report of the whole host.
//
//	d, err := nvidia.New(nvidia.Config{
//		Host: "compute1",
//		EnabledVGPUTypes: []nvidia.VGPUType{
//			{Name: "nvidia-35", DeviceAddresses: []string{"0000:84:00.0"}},
//		},
//	}, tree)
//	report, err := d.Discover(ctx)
package nvidia
