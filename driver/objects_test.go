package driver_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
)

func TestDevicesAsUpstreamsDriversReportThem(t *testing.T) {
	t.Parallel()
	at := driver.PCIAddress{Bus: 0x84}
	vgpu := at.Info()
	vgpu["asked_type"], vgpu["vgpu_mark"] = "nvidia-35", "nvidia-35_0"
	device := driver.Device{
		Vendor: "10de", Model: "Tesla T4", Type: driver.TypeGPU, StdBoardInfo: `{"product_id": "1eb8"}`, VendorBoardInfo: "miss_vb_info",
		ControlPath: at.ControlPath(), Programmable: new(bool), Resources: map[string]int{"CUSTOM_ACCELERATOR_MEMORY_HBM": 8},
		Deployables: []driver.Deployable{{
			Name: "h_0000:84:00.0", NumAccelerators: 1, DriverName: "NVIDIA", Class: "VGPU", Traits: []string{"OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8_T4_1B"},
			Attributes: []driver.Attribute{{Key: "rack", Value: "7"}}, AttachHandles: []driver.AttachHandle{{Type: driver.HandleMDEV, Info: vgpu, InUse: true}},
			Programmable: new(bool), Resources: map[string]int{"CUSTOM_ACCELERATOR_MEMORY_DDR4": 4},
		}},
	}
	text, err := driver.MarshalObjects([]driver.Device{device})
	if err != nil {
		t.Fatal(err)
	}
	const want = `[
  {
    "vendor": "10de",
    "model": "Tesla T4",
    "type": "GPU",
    "std_board_info": "{\"product_id\": \"1eb8\"}",
    "vendor_board_info": "miss_vb_info",
    "stub": false,
    "controlpath_id": {
      "cpid_type": "PCI",
      "cpid_info": "{\"bus\": \"84\", \"device\": \"00\", \"domain\": \"0000\", \"function\": \"0\"}"
    },
    "deployable_list": [
      {
        "name": "h_0000:84:00.0",
        "num_accelerators": 1,
        "driver_name": "NVIDIA",
        "attribute_list": [
          {
            "key": "rc",
            "value": "VGPU"
          },
          {
            "key": "trait0",
            "value": "OWNER_CYBORG"
          },
          {
            "key": "trait1",
            "value": "CUSTOM_NVIDIA_1EB8_T4_1B"
          },
          {
            "key": "rack",
            "value": "7"
          }
        ],
        "attach_handle_list": [
          {
            "attach_type": "MDEV",
            "attach_info": "{\"asked_type\": \"nvidia-35\", \"bus\": \"84\", \"device\": \"00\", \"domain\": \"0000\", \"function\": \"0\", \"vgpu_mark\": \"nvidia-35_0\"}",
            "in_use": true
          }
        ]
      }
    ]
  }
]
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var back []driver.Device
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	device.Programmable, device.Resources = nil, nil
	device.Deployables[0].Programmable, device.Deployables[0].Resources = nil, nil
	if diff := cmp.Diff([]driver.Device{device}, back); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
	if text, err := driver.MarshalObjects(nil); string(text) != "[]\n" || err != nil {
		t.Errorf("no devices: %q, %v", text, err)
	}
}

// The texts are those of Python's json.dumps, since the conductor compares them as they are.
func TestInformationIsWrittenAsPythonDoes(t *testing.T) {
	t.Parallel()
	at := driver.PCIAddress{Bus: 0x3b}
	info := at.Info()
	info["physical_network"] = "net<a&b> é 😀 \"\u007f\n"
	text, err := driver.MarshalObjects([]driver.Device{{ControlPath: at.ControlPath(), Deployables: []driver.Deployable{{AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: info}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Deployables []struct {
			Handles []struct {
				Info string `json:"attach_info"`
			} `json:"attach_handle_list"`
		} `json:"deployable_list"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	want := `{"bus": "3b", "device": "00", "domain": "0000", "function": "0", "physical_network": "net<a&b> \u00e9 \ud83d\ude00 \"\u007f\n"}`
	if got := list[0].Deployables[0].Handles[0].Info; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
