package driver

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict is what Policy.Judge finds about giving a PCI function to a guest.
type Verdict struct {
	// Refusal says why the function must not be offered, "" if it may be.
	Refusal string
	// Warning says what will keep a guest from starting with it, "" for nothing known.
	Warning string
	// Problems are files that could not be understood; with one the function is better
	// left alone.
	Problems []Problem
}

// Judge looks at everything that keeps a PCI function from being given away as a whole:
// the host's own use, virtual functions or mediated devices on it, a kernel driver that
// is bound and none of the allowed ones, other functions of its IOMMU group. Drivers are
// the kernel drivers of the device's own kind, which are no obstacle.
func (p Policy) Judge(tree Tree, f PCIFunction, s PCIState, drivers ...string) Verdict {
	if reason := p.HostUse(f, s); reason != "" {
		return Verdict{Refusal: reason}
	}
	if reason := s.Divided(); reason != "" {
		return Verdict{Refusal: reason}
	}
	if reason := s.OtherDriver(slices.Concat(drivers, p.AllowedDrivers)...); reason != "" {
		return Verdict{Refusal: reason}
	}
	return p.JudgeGroup(tree, f, s)
}

// JudgeGroup is the part of Judge about the IOMMU group.
func (p Policy) JudgeGroup(tree Tree, f PCIFunction, s PCIState) Verdict {
	reason, problems := IOMMUProblem(tree, f, s)
	v := Verdict{Problems: problems}
	if p.RequireViableIOMMUGroup {
		v.Refusal = reason
	} else {
		v.Warning = reason
	}
	return v
}

// HostUse says why a function is in the host's own use, or "". Beside PCIState.HostUse
// it knows what the host has mounted.
func (p Policy) HostUse(f PCIFunction, s PCIState) string {
	if reason := s.HostUse(f); reason != "" {
		return reason
	}
	for _, d := range s.Disks {
		for _, part := range append([]BlockDevice{d.BlockDevice}, d.Partitions...) {
			if slices.Contains(p.Mounts, part.Name) || part.Number != "" && slices.Contains(p.Mounts, part.Number) {
				return fmt.Sprintf("in the host's use: block device %s is mounted", part.Name)
			}
		}
		if p.Mounts == nil && len(d.Partitions) > 0 {
			return fmt.Sprintf("taken for the host's: disk %s has partitions, and what the host has mounted is not known", d.Name)
		}
	}
	return ""
}

// held names what the kernel holds of a disk: a volume group, an array, an encrypted
// volume, a mounted file system.
func (d Disk) held() string {
	for _, part := range append([]BlockDevice{d.BlockDevice}, d.Partitions...) {
		if part.FileSystem != "" {
			return fmt.Sprintf("block device %s is mounted, with file system %s", part.Name, part.FileSystem)
		}
		if len(part.Holders) > 0 {
			return fmt.Sprintf("block device %s is held by %s", part.Name, strings.Join(part.Holders, ", "))
		}
	}
	return ""
}
