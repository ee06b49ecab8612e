package transfer_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gocyborg/gocyborg/simcloud/transfer"
)

const smallListing = `{
  "schema_version": 2,
  "read_at": "2026-11-20T12:00:00Z",
  "placement": {
    "resource_classes": [{"name": "VCPU"}, {"name": "PGPU"}],
    "traits": [],
    "resource_providers": [
      {"uuid": "0aa8f312-1aa0-40df-82dc-3f16d000bbca", "name": "secret-lab", "parent_provider_uuid": null, "resource_provider_generation": 3},
      {"uuid": "75c9d2f9-d15e-3a2c-b3b0-8d3b0b8a7f0c", "name": "secret-lab_0000:3b:00.0", "resource_provider_generation": 2,
       "parent_provider_uuid": "0aa8f312-1aa0-40df-82dc-3f16d000bbca",
       "inventories": {"PGPU": {"total": 1, "reserved": 0, "min_unit": 1, "max_unit": 1, "step_size": 1, "allocation_ratio": 1}}}
    ],
    "consumers": []
  },
  "accelerator": {
    "devices": [{"uuid": "b4cc8fb8-0b63-4b5d-b100-3b5bdaa9efdb", "hostname": "secret-lab", "type": "GPU", "vendor": "10de", "model": "Tesla P100"}],
    "deployables": [{"uuid": "ba7c7315-8d18-400a-a04b-4171a4e96851", "name": "secret-lab_0000:3b:00.0", "num_accelerators": 1, "device_id": 9,
      "rp_uuid": "75c9d2f9-d15e-3a2c-b3b0-8d3b0b8a7f0c", "driver_name": "NVIDIA", "attributes_list": "[{\"rc\": \"PGPU\"}]"}],
    "attributes": [],
    "device_profiles": [],
    "arqs": []
  }
}`

func ExampleImport() {
	listing, err := transfer.ParseListing([]byte(smallListing))
	if err != nil {
		log.Fatal(err)
	}
	listing, err = listing.Anonymize(transfer.Anonymization{Names: true, IDs: true})
	if err != nil {
		log.Fatal(err)
	}
	cloud, err := transfer.Import(context.Background(), listing)
	if err != nil {
		log.Fatal(err)
	}
	defer cloud.Close()
	for _, d := range cloud.Cyborg.Deployables() {
		fmt.Println(d.Hostname, d.Name, d.DeviceID)
	}
	for _, h := range cloud.Cyborg.AttachHandles() {
		fmt.Println(h.Type, h.Info["domain"], h.InUse)
	}
	// Output:
	// host-1 host-1_0000:3b:00.0 9
	// PCI ffff false
}
