//go:build libvirt

package libvirt

import (
	"errors"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
)

// The real virsh, of Debian's libvirt-clients, understands the commands and refuses as this package expects. Each connection to libvirt's
// test driver has one guest, which runs, and forgets what is defined.
func TestTheRealVirsh(t *testing.T) {
	h := Hypervisor{URI: func(string) string { return "test:///default" }}
	test := spawn.Instance{UUID: "6695eb01-f6a4-8304-79aa-97f2502e193f", Host: "cn0"}
	if domain, running, err := h.Domain(t.Context(), test); err != nil || !running || !strings.Contains(string(domain), test.UUID) {
		t.Errorf("got running %t, %v\n%s", running, err, domain)
	}
	domain := strings.NewReplacer(`type="kvm"`, `type="test"`, ` arch="x86_64" machine="q35"`, "").Replace(string(domainxml.NewDomain(domainxml.DomainOpts{UUID: instance})))
	if err := h.Define(t.Context(), spawn.Instance{UUID: instance, Host: "cn0"}, []byte(domain)); err != nil {
		t.Error(err)
	}
	if err := h.Start(t.Context(), test); err == nil || errors.Is(err, spawn.ErrNoGuest) {
		t.Errorf("start of a running guest: %v", err)
	}
	if err := h.Destroy(t.Context(), test); err != nil {
		t.Error(err)
	}

	missing := spawn.Instance{UUID: instance, Host: "cn0"}
	if _, _, err := h.Domain(t.Context(), missing); !errors.Is(err, spawn.ErrNoGuest) {
		t.Errorf("domain of a missing guest: %v", err)
	}
	if err := errors.Join(h.Destroy(t.Context(), missing), h.Undefine(t.Context(), missing)); err != nil {
		t.Errorf("a missing guest: %v", err)
	}
}
