package domainxml

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// DomainOpts describes the domain that [NewDomain] writes. The zero value is a
// domain named "instance" with 512 MiB and one virtual CPU.
type DomainOpts struct {
	Name      string // "instance" when empty
	UUID      string // left out when empty; libvirt then makes one
	MemoryMiB int    // 512 when not positive
	VCPUs     int    // 1 when not positive
}

// NewDomain writes a small libvirt domain into which host devices can be merged:
// KVM, machine type q35, a serial console and no disk. Nothing in it depends on
// the host (there is no emulator path), so any libvirt for x86_64 can define it.
// Text is escaped; whether the name and the UUID please libvirt is for libvirt
// to say.
func NewDomain(opts DomainOpts) []byte {
	if opts.Name == "" {
		opts.Name = "instance"
	}
	uuid := ""
	if opts.UUID != "" {
		uuid = fmt.Sprintf("  <uuid>%s</uuid>\n", escaped(opts.UUID))
	}
	return fmt.Appendf(nil, domainText, escaped(opts.Name), uuid, orDefault(opts.MemoryMiB, 512), orDefault(opts.VCPUs, 1))
}

const domainText = `<domain type="kvm">
  <name>%s</name>
%s  <memory unit="MiB">%d</memory>
  <vcpu>%d</vcpu>
  <os>
    <type arch="x86_64" machine="q35">hvm</type>
  </os>
  <features>
    <acpi/>
    <apic/>
  </features>
  <devices>
    <serial type="pty"/>
    <console type="pty"/>
  </devices>
</domain>
`

func orDefault(n, standard int) int {
	if n <= 0 {
		return standard
	}
	return n
}

func escaped(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a bytes.Buffer does not fail
	return b.String()
}
