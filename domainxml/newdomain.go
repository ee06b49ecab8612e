package domainxml

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
)

// DomainOpts describes the domain that [NewDomain] writes. The zero value is a
// domain named "instance" with 512 MiB and one virtual CPU.
type DomainOpts struct {
	Name      string // "instance" when empty
	UUID      string // omitted when empty; libvirt then generates one
	MemoryMiB int    // 512 when not positive
	VCPUs     int    // 1 when not positive
}

// NewDomain returns a small libvirt domain into which host devices can be merged:
// KVM, machine type q35, a serial console and no disk. It has no emulator path, so any
// libvirt for x86_64 can define it. Name and UUID are escaped but not validated.
func NewDomain(opts DomainOpts) []byte {
	uuid := ""
	if opts.UUID != "" {
		uuid = fmt.Sprintf("  <uuid>%s</uuid>\n", escaped(opts.UUID))
	}
	return fmt.Appendf(nil, domainText, escaped(cmp.Or(opts.Name, "instance")), uuid, cmp.Or(max(opts.MemoryMiB, 0), 512), cmp.Or(max(opts.VCPUs, 0), 1))
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

func escaped(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a bytes.Buffer does not fail
	return b.String()
}
