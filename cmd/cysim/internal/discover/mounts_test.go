package discover

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMountedDevices(t *testing.T) {
	t.Parallel()
	const mountinfo = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
28 27 259:2 / /boot rw,relatime shared:31 - vfat /dev/nvme0n1p2 rw
29 27 0:40 /root /srv rw,relatime shared:1 - btrfs /dev/sdb1 rw,subvol=/root
30 27 253:0 / /var rw - xfs /dev/mapper/vg-var rw
31 27 8:33 / /mnt/a\040b rw - ext4 /dev/odd\040name rw
32 27 254:0 / /bind rw - ext4 /dev/vda rw
33 27 0:50 / /nfs rw - nfs4 server:/dev/sdz rw
garbled
34

35 1 - -
`
	const swaps = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/dm-1                               partition\t8388604\t\t0\t\t-2\n/swapfile                               file\t1\t0\t-3\n"
	name := func(device string) string {
		if device == "/dev/mapper/vg-var" {
			return "dm-0"
		}
		return path.Base(device)
	}
	want := []string{"254:0", "vda", "259:2", "nvme0n1p2", "sdb1", "253:0", "dm-0", "8:33", "odd name", "dm-1"}
	if diff := cmp.Diff(want, mountedDevices([]byte(mountinfo), []byte(swaps), name)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for where, table := range map[string]string{
		"a container":      "22 27 0:21 / / rw - overlay overlay rw\n23 22 8:1 /hosts /etc/hosts rw - ext4 /dev/sda1 rw\n",
		"a host on a pool": "22 27 0:21 / / rw - zfs rpool/root rw\n",
		"nothing readable": "",
	} {
		if got := mountedDevices([]byte(table), []byte(swaps), name); got != nil {
			t.Errorf("in %s: %q, want nil for not known", where, got)
		}
	}
	if got := mountedDevices([]byte("22 27 0:21 / / rw - btrfs /dev/sda2 rw\n"), nil, name); !cmp.Equal(got, []string{"sda2"}) {
		t.Errorf("with the root on btrfs: %q", got)
	}
}

func TestOnlySysIsTheLiveTree(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink("/sys", link))
	_, err := os.Stat("/sys")
	for dir, want := range map[string]bool{"/sys": err == nil, "/sys/": err == nil, link: err == nil, t.TempDir(): false, "": false, "/none": false} {
		if got := isLive(dir); got != want {
			t.Errorf("isLive(%q) = %t", dir, got)
		}
	}
}
