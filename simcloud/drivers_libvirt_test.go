//go:build libvirt

package simcloud_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asked runs one of libvirt's tools (Debian: libvirt-clients, libxml2-utils) on a domain.
func asked(t *testing.T, domain string, name string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v; it is in Debian's libvirt-clients, and virt-xml-validate needs libxml2-utils", err)
	}
	file := filepath.Join(t.TempDir(), "domain.xml")
	must(t, os.WriteFile(file, []byte(domain), 0o600))
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "FILE", file)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestLibvirtAcceptsTheGuestOfEveryDriver(t *testing.T) {
	list := givenDrivers()
	s := newSpawner(t, oneHost(list...))
	for i, g := range list {
		domain := string(s.spawn(t, i, g).Domain)
		if out, err := asked(t, domain, "virt-xml-validate", "FILE", "domain"); err != nil {
			t.Errorf("%s: virt-xml-validate: %v\n%s\n%s", g.name, err, out, domain)
		}
		// The parser of libvirt's test driver, which knows neither KVM nor machine types.
		parsed := strings.NewReplacer(`type="kvm"`, `type="test"`, ` arch="x86_64" machine="q35"`, "").Replace(domain)
		if out, err := asked(t, parsed, "virsh", "-q", "-c", "test:///default", "define", "FILE"); err != nil {
			t.Errorf("%s: virsh define: %v\n%s\n%s", g.name, err, out, domain)
		}
		if g.name != "nvidia" {
			continue
		}
		wrong := strings.Replace(domain, "<hostdev ", `<hostdev kind="x" `, 1)
		if out, err := asked(t, wrong, "virt-xml-validate", "FILE", "domain"); err == nil {
			t.Errorf("virt-xml-validate accepts what is wrong: %s", out)
		}
	}
}
