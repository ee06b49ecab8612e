package sysfs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Disk describes a disk of a PCI function.
type Disk struct {
	// Name is the name of the block device: nvme0n1, sda, vda. It decides what is between the
	// function and the disk: a controller nvme0, a host and a target of SCSI, a virtio device, or
	// nothing.
	Name string `json:"name"`
	// Major and Minor are the number of the device, 259:0 in its file dev.
	Major int `json:"major"`
	Minor int `json:"minor"`
	// Partitions are the partitions of the disk, with the same Major.
	Partitions []Partition `json:"partitions,omitempty"`
	// Holders are block devices made of the whole disk: dm-0, md127.
	Holders []string `json:"holders,omitempty"`
	// Udev has properties that udev found on the disk, such as ID_FS_TYPE. There is a record
	// without any, too, and ID_PART_TABLE_TYPE is added for a disk with partitions.
	Udev map[string]string `json:"udev,omitempty"`
}

// Partition describes one partition of a disk.
type Partition struct {
	// Name is the name of the block device: nvme0n1p1, sda1.
	Name  string `json:"name"`
	Minor int    `json:"minor"`
	// Holders are block devices made of the partition: dm-0, md127.
	Holders []string `json:"holders,omitempty"`
}

const (
	maxMajor = 1<<12 - 1 // of the kernel's own numbers
	maxMinor = 1<<20 - 1
	majorDM  = 253
	majorMD  = 9
)

func (d Disk) check() error {
	if err := checkBlock("disk name", d.Name, d.Major, d.Minor, d.Holders); err != nil {
		return err
	}
	for key, value := range d.Udev {
		if key == "" || strings.ContainsAny(key+value, "=\n") {
			return fmt.Errorf("disk %s: udev property %q=%q", d.Name, key, value)
		}
	}
	for _, p := range d.Partitions {
		if p.Name == d.Name {
			return fmt.Errorf("disk %s: partition name %q is not another file name", d.Name, p.Name)
		}
		if err := checkBlock("partition name", p.Name, d.Major, p.Minor, p.Holders); err != nil {
			return fmt.Errorf("disk %s: %w", d.Name, err)
		}
	}
	return nil
}

func checkBlock(what, name string, major, minor int, holders []string) error {
	if err := checkName(what, name); err != nil {
		return err
	}
	if major < 0 || major > maxMajor || minor < 0 || minor > maxMinor {
		return fmt.Errorf("block device %s: number %d:%d is not within 0:0 and %d:%d", name, major, minor, maxMajor, maxMinor)
	}
	for _, h := range holders {
		if err := checkName("holder", h); err != nil {
			return fmt.Errorf("block device %s: %w", name, err)
		}
	}
	return nil
}

// addDisk makes the directories of a disk and its partitions, and the links of the
// classes to them.
func (m *hardware) addDisk(f *function, d Disk) {
	dir, device := m.diskDir(f, d.Name)
	m.addBlock(dir, fmt.Sprintf("%d:%d", d.Major, d.Minor), d.Holders)
	m.file(dir+"/ro", line(0))
	m.file(dir+"/removable", line(0))
	m.link(dir+"/device", device)
	m.link("block/"+d.Name, dir)
	m.root.makeDir(dir + "/slaves")
	m.addUdevRecord(d)
	for i, p := range d.Partitions {
		at := dir + "/" + p.Name
		m.addBlock(at, fmt.Sprintf("%d:%d", d.Major, p.Minor), p.Holders)
		m.file(at+"/partition", line(i+1))
	}
}

// addUdevRecord writes the record of a disk as udev keeps it.
func (m *hardware) addUdevRecord(d Disk) {
	record := "I:1000000\n"
	if len(d.Partitions) > 0 && d.Udev["ID_PART_TABLE_TYPE"] == "" {
		record += "E:ID_PART_TABLE_TYPE=gpt\n"
	}
	for _, key := range slices.Sorted(maps.Keys(d.Udev)) {
		record += "E:" + key + "=" + d.Udev[key] + "\n"
	}
	m.file(fmt.Sprintf("run/udev/data/b%d:%d", d.Major, d.Minor), record)
}

// addBlock adds what disks and partitions have in common.
func (m *hardware) addBlock(dir, number string, holders []string) {
	_, name, _ := cutLast(dir)
	m.file(dir+"/dev", number+"\n")
	m.link(dir+"/subsystem", "class/block")
	m.link("class/block/"+name, dir)
	m.link("dev/block/"+number, dir)
	m.root.makeDir(dir + "/holders")
	for _, h := range holders {
		m.addHolder(h)
		m.link(dir+"/holders/"+h, "devices/virtual/block/"+h)
		m.link("devices/virtual/block/"+h+"/slaves/"+name, dir)
	}
}

// addHolder makes a block device that is made of others, once.
func (m *hardware) addHolder(name string) {
	dir := "devices/virtual/block/" + name
	if _, err := m.root.walk(dir, true); err == nil {
		return
	}
	number, _ := strconv.Atoi(strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz-")) // 0 for another name
	major := majorDM
	if strings.HasPrefix(name, "md") {
		major = majorMD
	}
	m.addBlock(dir, fmt.Sprintf("%d:%d", major, number), nil)
	m.link("block/"+name, dir)
}

// diskDir returns the directory of a disk, and of the device that the disk's own link
// leads to.
func (m *hardware) diskDir(f *function, name string) (dir, device string) {
	switch {
	case strings.HasPrefix(name, "nvme"):
		controller := "nvme" + digits(name[len("nvme"):])
		device = f.dir + "/nvme/" + controller
		m.link("class/nvme/"+controller, device)
		m.link(device+"/device", f.dir)
		return device + "/" + name, device
	case strings.HasPrefix(name, "vd"):
		device = f.dir + "/" + m.next("virtio")
	case strings.HasPrefix(name, "sd"):
		host := m.next("host")
		n := strings.TrimPrefix(host, "host")
		device = fmt.Sprintf("%s/%s/target%s:0:0/%s:0:0:0", f.dir, host, n, n)
	default:
		device = f.dir
	}
	return device + "/block/" + name, device
}

// next numbers the devices of a kind in the order of description.
func (m *hardware) next(kind string) string {
	name := kind + strconv.Itoa(m.numbers[kind])
	m.numbers[kind]++
	return name
}

// digits returns the digits that a text begins with.
func digits(text string) string {
	return text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
}

// Clock describes a precision time protocol clock of a PCI function.
type Clock struct {
	// Name is the name of the class device, ptp0.
	Name string `json:"name"`
	// ClockName is the kernel driver's name of the clock, the content of clock_name.
	ClockName string `json:"clock_name"`
}

const majorPTP = 248

func (m *hardware) addClock(f *function, c Clock) {
	dir := f.dir + "/ptp/" + c.Name
	m.file(dir+"/clock_name", c.ClockName+"\n")
	m.file(dir+"/dev", fmt.Sprintf("%d:%d\n", majorPTP, m.numbers["ptp"]))
	m.numbers["ptp"]++
	m.link(dir+"/device", f.dir)
	m.link(dir+"/subsystem", "class/ptp")
	m.link("class/ptp/"+c.Name, dir)
}
