package requestspec_test

import (
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/requestspec"
)

func ExampleNew() {
	flavor := requestspec.Flavor{
		Name: "gpu.small", VCPUs: 2, MemoryMB: 2048, RootGB: 20,
		ExtraSpecs: map[string]string{requestspec.DeviceProfileKey: "gpu"},
	}
	profile := requestspec.Profile{
		Name:   "gpu",
		Groups: []map[string]string{{"resources:PGPU": "1", "trait:CUSTOM_GPU_NVIDIA": "required"}},
	}
	spec, err := requestspec.New(flavor, &profile, requestspec.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	values := spec.Values()
	for _, name := range []string{"resources", "resourcesdevice_profile_0", "requireddevice_profile_0", "root_required"} {
		fmt.Println(name, values.Get(name))
	}
	// Output:
	// resources DISK_GB:20,MEMORY_MB:2048,VCPU:2
	// resourcesdevice_profile_0 PGPU:1
	// requireddevice_profile_0 CUSTOM_GPU_NVIDIA
	// root_required COMPUTE_ACCELERATORS,!COMPUTE_STATUS_DISABLED
}

func ExampleNew_warnings() {
	flavor := requestspec.Flavor{Name: "odd", VCPUs: 1, ExtraSpecs: map[string]string{
		"resources:VGPU":            "one",
		"accel:device_profile_name": "gpu",
	}}
	spec, err := requestspec.New(flavor, nil, requestspec.Options{NoFilters: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range spec.Warnings {
		fmt.Printf("%s=%s: %s\n", w.Key, w.Value, w.Message)
	}
	fmt.Println(spec.Query())
	// Output:
	// accel:device_profile_name=gpu: This extra spec is ignored; use accel:device_profile for a device profile.
	// resources:VGPU=one: Resource amounts must be nonnegative integers. Received 'one'
	// limit=1000&resources=VCPU%3A1
}

func ExampleParseProfile() {
	_, err := requestspec.ParseProfile("gpu", []map[string]string{
		{"resources:PGPU": "1"},
		{"resources:PGPU": "0"},
	})
	fmt.Println(err)
	fmt.Println(errors.Is(err, requestspec.ErrInvalidProfile))
	// Output:
	// requestspec: invalid device profile "gpu" group 1 key "resources:PGPU": amount "0" is not a positive integer
	// true
}

func ExampleParseProfileFile() {
	profile, err := requestspec.ParseProfileFile([]byte(`[{"name": "vgpu", "groups": [{"resources:VGPU": 1}]}]`))
	fmt.Println(profile.Name, profile.Groups[0]["resources:VGPU"], err)
	// Output: vgpu 1 <nil>
}

func ExampleARQCount() {
	group := map[string]string{"resources:FPGA": "2", "trait:CUSTOM_FPGA_XILINX": "required"}
	n, err := requestspec.ARQCount(group)
	fmt.Println(n, err) // a management and a user function for each
	// Output: 4 <nil>
}
