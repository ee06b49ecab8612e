package spawn

import (
	"errors"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/domainxml"
)

// A domain that lacks a device is rejected, even if the merge is wrong.
func TestADomainWithoutADeviceIsNotVerified(t *testing.T) {
	t.Parallel()
	hostdevs, _, err := domainxml.Hostdevs([]domainxml.Handle{{
		ARQ: "the ARQ", Type: domainxml.HandlePCI, Info: map[string]any{"domain": "0000", "bus": "3b", "device": "00", "function": "0"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	accel := accelerators{hostdevs: hostdevs}
	empty := domainxml.NewDomain(domainxml.DomainOpts{Name: "vm"})
	if err := accel.verify(empty); !errors.Is(err, ErrNotBound) || !strings.Contains(err.Error(), "ARQ the ARQ") {
		t.Errorf("got error %v, want ErrNotBound that names the ARQ", err)
	}
	full, err := accel.complete(empty)
	if err != nil || accel.verify(full) != nil {
		t.Errorf("the whole domain: %v, %v", err, accel.verify(full))
	}
	if err := accel.verify([]byte("<network/>")); err == nil || errors.Is(err, ErrNotBound) {
		t.Errorf("no domain: %v", err)
	}
}
