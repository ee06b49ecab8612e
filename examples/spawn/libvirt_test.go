//go:build libvirt

package main

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// The domains are validated against libvirt's schema. The tools are in Debian's
// libvirt-clients and libxml2-utils.
func TestLibvirtAcceptsEveryDomain(t *testing.T) {
	for _, profile := range []string{"gpu", "vgpu", "fpga", "fake", "mixed"} {
		t.Run(profile, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "domain.xml")
			if status, _, stderr := runSpawn(t, "--profile", profile, "--xml", path); status != 0 {
				t.Fatalf("exit %d: %s", status, stderr)
			}
			if out, err := exec.CommandContext(t.Context(), "virt-xml-validate", path, "domain").CombinedOutput(); err != nil {
				t.Errorf("virt-xml-validate: %v\n%s", err, out)
			}
		})
	}
}
