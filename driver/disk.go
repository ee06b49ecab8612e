package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver/internal/file"
)

const (
	blockClassDir = "class/block"
	// udevDir has udev's record of each block device, b259:0. Its parent is the parent of the sysfs.
	udevDir = "run/udev/data"
)

// Disk is a block device that a PCI function drives, or a partition of one.
type Disk struct {
	Name string
	// Number is MAJOR:MINOR, empty where the file dev is absent.
	Number string
	// Holders are block devices made of this one: a logical volume, an array.
	Holders []string
	// FileSystem is the kind of a file system on it that is mounted, as far as sysfs shows it:
	// for ext4, xfs, btrfs and some others.
	FileSystem string
	Partitions []Disk
	// Recorded is set if udev has a record of the disk, and Content is the content in that
	// record: "file system LVM2_member", "partition table gpt". Sysfs has neither.
	Recorded bool
	Content  string
}

// parts are the disk and its partitions.
func (d Disk) parts() []Disk { return append([]Disk{d}, d.Partitions...) }

// held names what the kernel holds of a disk: a volume group, an array, an encrypted
// volume, a mounted file system.
func (d Disk) held() string {
	for _, part := range d.parts() {
		if part.FileSystem != "" {
			return fmt.Sprintf("block device %s is mounted, with file system %s", part.Name, part.FileSystem)
		}
		if len(part.Holders) > 0 {
			return fmt.Sprintf("block device %s is held by %s", part.Name, strings.Join(part.Holders, ", "))
		}
	}
	return ""
}

// unfit says why a disk that the host does not hold is not for guests either, or "": something
// may be stored on it.
func (d Disk) unfit() string {
	switch {
	case len(d.Partitions) > 0:
		return fmt.Sprintf("disk %s has partitions, including %s", d.Name, d.Partitions[0].Name)
	case d.Content != "":
		return fmt.Sprintf("disk %s has a %s", d.Name, d.Content)
	case !d.Recorded:
		return fmt.Sprintf("udev has no record of disk %s, so its content is unknown", d.Name)
	}
	return ""
}

// blocks holds the data of a tree about all block devices.
type blocks struct {
	// byFunction has the directories of the disks behind a PCI function.
	byFunction map[string][]string
	// mounted has the kind of file system by block device.
	mounted map[string]string
}

// readBlocks fails with a Problem: what it could not read may be in the host's use.
func readBlocks(tree *View) (b blocks, err error) {
	if b.byFunction, err = blockClass(tree); err == nil {
		b.mounted, err = mountedSystems(tree)
	}
	return b, err
}

// mountedSystems finds the block devices with a file system that is mounted: the drivers
// of some have a directory for each, fs/ext4/sda1, or list the disks of each, as btrfs.
func mountedSystems(tree *View) (map[string]string, error) {
	mounted := make(map[string]string)
	add := func(kind, dir string) error {
		names, err := tree.Names(dir)
		if file.Unread(err) {
			return Problem{File: dir, Err: err}
		}
		for _, name := range names {
			mounted[name] = kind
		}
		return nil
	}
	for _, kind := range []string{"ext4", "xfs", "f2fs", "nilfs2", "erofs"} {
		if err := add(kind, "fs/"+kind); err != nil {
			return nil, err
		}
	}
	ids, err := tree.Names("fs/btrfs")
	if file.Unread(err) {
		return nil, Problem{File: "fs/btrfs", Err: err}
	}
	for _, id := range ids {
		if err := add("btrfs", "fs/btrfs/"+id+"/devices"); err != nil {
			return nil, err
		}
	}
	return mounted, nil
}

// blockClass finds for each PCI function the directories of the disks it drives: the last address
// in the link of a disk belongs to its function. A partition is in the directory of its disk and
// is skipped. Without the class only the function's own directory is used.
func blockClass(tree *View) (map[string][]string, error) {
	names, err := tree.Names(blockClassDir)
	if file.Unread(err) {
		return nil, Problem{File: blockClassDir, Err: err}
	}
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[name] = true
	}
	found := make(map[string][]string)
	for _, name := range names {
		target, err := tree.Readlink(blockClassDir + "/" + name)
		if file.Unread(err) {
			return nil, Problem{File: blockClassDir + "/" + name, Err: file.Cause(err)}
		}
		full := path.Join(blockClassDir, target)
		if err != nil || known[path.Base(path.Dir(full))] {
			continue
		}
		for _, part := range slices.Backward(strings.Split(full, "/")) {
			if a, err := ParsePCIAddress(part); err == nil {
				found[a.String()] = append(found[a.String()], full)
				break
			}
		}
	}
	return found, nil
}

// disks collects the disks of the function, from the class of block devices and from the
// function's own directory.
func (r *stateReader) disks(own []string) {
	dirs := own
	for _, dir := range r.blocks.byFunction[r.function.Address.String()] {
		if !slices.ContainsFunc(dirs, func(o string) bool { return path.Base(o) == path.Base(dir) }) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		if head, isPath := file.NVMeHead(path.Base(dir)); isPath {
			dir = blockClassDir + "/" + head
		}
		r.disk(dir)
	}
}

func (r *stateReader) isPartition(dir string) bool {
	_, err := r.tree.ReadFile(dir + "/partition")
	if file.Unread(err) {
		r.problemAt(dir+"/partition", err)
	}
	return err == nil
}

// ownDisks finds disks below block/ and nvme/ of the function.
func (r *stateReader) ownDisks(name string) (dirs []string) {
	if strings.HasPrefix(name, "virtio") { // such a device is between function and disk
		name += "/block"
	}
	switch {
	case path.Base(name) == "block":
		for _, disk := range r.list(name) {
			dirs = append(dirs, r.path(name+"/"+disk))
		}
	case name == "nvme":
		for _, controller := range r.list(name) {
			if !file.IsNVMeController(controller) {
				continue
			}
			for _, disk := range r.list(name + "/" + controller) {
				if file.IsNVMeNamespace(disk) {
					dirs = append(dirs, r.path(name+"/"+controller+"/"+disk))
				}
			}
		}
	}
	return dirs
}

// disk reads one disk and its partitions, which are directories with a file partition.
func (r *stateReader) disk(dir string) {
	entries, err := r.tree.ReadDir(dir)
	if err != nil { // also if it was removed, or has no live path: its content is not known
		r.problemAt(dir, err)
		return
	}
	d := r.blockDevice(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), path.Base(dir)) && r.isPartition(dir+"/"+e.Name()) {
			d.Partitions = append(d.Partitions, r.blockDevice(dir+"/"+e.Name()))
		}
	}
	r.udev(&d)
	if !slices.ContainsFunc(r.state.Disks, func(o Disk) bool { return o.Name == d.Name }) {
		r.state.Disks = append(r.state.Disks, d)
	}
}

// udev reads udev's record of a disk.
func (r *stateReader) udev(d *Disk) {
	if d.Number == "" {
		return
	}
	name := udevDir + "/b" + d.Number
	record, err := r.tree.ReadFile(name)
	if d.Recorded = err == nil; !d.Recorded {
		if !errors.Is(err, fs.ErrNotExist) {
			r.problemAt(name, err)
		}
		return
	}
	for line := range strings.Lines(string(record)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case value == "":
		case key == "E:ID_FS_TYPE":
			d.Content = "file system " + value
		case key == "E:ID_PART_TABLE_TYPE" && d.Content == "":
			d.Content = "partition table " + value
		}
	}
}

func (r *stateReader) blockDevice(dir string) Disk {
	d := Disk{Name: path.Base(dir), FileSystem: r.blocks.mounted[path.Base(dir)]}
	number, err := r.tree.ReadText(dir + "/dev")
	switch {
	case err == nil && file.IsDeviceNumber(number):
		d.Number = number
	case err == nil:
		r.problemAt(dir+"/dev", garbled(number))
	case !errors.Is(err, fs.ErrNotExist):
		r.problemAt(dir+"/dev", err)
	}
	if d.Holders, err = r.tree.Names(dir + "/holders"); err != nil {
		r.problemAt(dir+"/holders", err)
	}
	return d
}
