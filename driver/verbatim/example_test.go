package verbatim_test

import (
	"context"
	"fmt"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/verbatim"
)

func Example() {
	at := driver.PCIAddress{Bus: 0x3b}
	handle := driver.AttachHandle{Type: driver.HandleMDEV, Info: at.Info()}
	handle.Info["asked_type"], handle.Info["vgpu_mark"] = "nvidia-35", "0"
	d := verbatim.New([]driver.Device{{
		Vendor: "10de", Type: driver.TypeGPU, ControlPath: at.ControlPath(),
		Deployables: []driver.Deployable{{Name: "compute1_gpu", NumAccelerators: 1, Class: "VGPU", AttachHandles: []driver.AttachHandle{handle}}},
	}})
	ctx := context.Background()
	report, err := d.Discover(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Devices[0].Deployables[0].Name)
	m, err := handle.Mdev("91ac1606-427e-44bb-8233-f4ff4bf3d241")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.CreateMdev(ctx, m), d.Mdevs())
	d.Reboot()
	fmt.Println(d.Mdevs())
	// Output:
	// compute1_gpu
	// <nil> [{91ac1606-427e-44bb-8233-f4ff4bf3d241 0000:3b:00.0 nvidia-35}]
	// []
}
