//go:build unix

package command_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/command"
)

// script discovers one card. A real program looks for it in /sys.
const script = `#!/bin/sh
[ "$1" = discover ] || exit 1
echo '{"rocky": {"0000:3b:00.0": {"type": "AICHIP", "vendor": "acme", "product": "NPU"}}}'
`

func Example() {
	dir, err := os.MkdirTemp("", "driver")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "acme.sh")
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		fmt.Println(err)
		return
	}
	d, err := command.New(command.Config{Host: "compute1", Name: "acme", Program: path}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := d.Discover(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range report.Devices[0].Deployables {
		fmt.Println(p.Name, p.Class, p.Traits, driver.ProviderUUID(p.Name))
	}
	// Output: compute1_0000:3b:00.0 CUSTOM_ACCELERATOR_AICHIP [OWNER_CYBORG CUSTOM_AICHIP_ACME_NPU] 6cd2aca9-08d5-3e7e-b324-6c788dcceac8
}
