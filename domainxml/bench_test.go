package domainxml_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/domainxml"
)

// The time grows with the document, not with its square.
func BenchmarkMerge(b *testing.B) {
	for _, name := range []string{"filesystem", "hostdev", "disk"} {
		for _, n := range []int{10_000, 70_000} {
			element := "<" + name + "/>"
			if name == "hostdev" {
				element = `<hostdev mode="subsystem" type="usb"/>`
			}
			domain := []byte("<domain><devices>" + strings.Repeat(element, n) + "</devices></domain>")
			b.Run(fmt.Sprintf("%s=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if _, err := domainxml.Merge(domain, []domainxml.Hostdev{{MDEV: mdevUUID2}}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkCompose merges a device into the minimal domain of a guest and reads it back, as
// a spawn does.
func BenchmarkCompose(b *testing.B) {
	domain := domainxml.NewDomain(domainxml.DomainOpts{Name: "guest", MemoryMiB: 2048, VCPUs: 2})
	devices := []domainxml.Hostdev{{MDEV: mdevUUID2}}
	b.ReportAllocs()
	for b.Loop() {
		merged, err := domainxml.Merge(domain, devices)
		if err != nil {
			b.Fatal(err)
		}
		if diff, err := domainxml.Diff(merged, devices); err != nil || len(diff.Missing) > 0 {
			b.Fatal(diff, err)
		}
	}
}
