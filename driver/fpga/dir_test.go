package fpga_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

func TestADirectoryIsReadAsATreeInMemoryAndNeverWritten(t *testing.T) {
	t.Parallel()
	m := drivertest.Tree(t, append(alveo("0000:3b:00"), intelCard(pf, 0, "12", "ab", 2), intelCard(other, 1, "3", "c", 0), inspurCard("0000:3c:00.0"))...)
	root := t.TempDir()
	if err := m.LayOut(root); err != nil {
		t.Fatal(err)
	}
	dir, err := sysfs.OpenDir(root, sysfs.DirOptions{Write: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	want := everything(t, fpga.Config{}, m)
	if diff := cmp.Diff(want, everything(t, fpga.Config{}, dir)); diff != "" || len(want[0].Devices) != 2 {
		t.Errorf("reports (-memory +directory):\n%s", diff)
	}
	if err := newIntel(t, fpga.Config{}, dir).Program(t.Context(), path(t, other), "", gbs(t, "3", "d")); !errors.Is(err, fpga.ErrNoLoader) {
		t.Errorf("error %v, want %v", err, fpga.ErrNoLoader)
	}
	if diff := cmp.Diff(want, everything(t, fpga.Config{}, dir)); diff != "" {
		t.Errorf("after a refused programming (-before +after):\n%s", diff)
	}
}
