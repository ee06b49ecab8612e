package builtin_test

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// contents has every file below a directory and every link.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		var text []byte
		switch {
		case err != nil || e.IsDir():
		case e.Type()&fs.ModeSymlink != 0:
			var target string
			target, err = os.Readlink(path)
			text = []byte(target)
		default:
			text, err = os.ReadFile(path)
		}
		found[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// linkOut replaces names of a tree with links to names of another tree outside of it. Each leads
// out as an absolute name, or by more ".." than there are directories.
func linkOut(t *testing.T, dir, outside string, replace func(path string, e fs.DirEntry) bool) (links int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir || !replace(path, e) {
			return err
		}
		name, err := filepath.Rel(dir, path)
		target := filepath.Join(outside, name)
		if links++; links%2 == 0 {
			target = strings.Repeat("../", 40) + target
		}
		if err = errors.Join(err, os.RemoveAll(path), os.Symlink(target, path)); err == nil && e.IsDir() {
			err = fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return links
}

// useAll makes and removes every mediated device and vGPU of a configuration that has them all, and
// returns how many writes succeeded.
func useAll(ctx context.Context, drivers []driver.Driver) (done int) {
	count := func(err error) {
		if err == nil {
			done++
		}
	}
	for _, d := range drivers {
		if d, ok := d.(driver.MdevDriver); ok {
			for _, m := range []driver.Mdev{
				{UUID: "11111111-1111-4111-8111-111111111111", Parent: "0000:11:00.0", Type: "nvidia-222"},
				{UUID: "22222222-2222-4222-8222-222222222222", Parent: "mtty", Type: "mtty-2"},
			} {
				count(d.CreateMdev(ctx, m))
				_ = d.RemoveMdev(ctx, m) // one that is not there is removed
			}
		}
		if d, ok := d.(driver.VGPUDriver); ok {
			v := driver.VGPU{Function: driver.PCIAddress{Bus: 0x1f, Function: 2}, Type: 1555}
			count(d.SetVGPU(ctx, v, false))
			_ = d.ClearVGPU(ctx, v)
		}
	}
	return done
}

// TestNothingOutsideOfTheTreeIsReadOrWritten: an agent that runs as root is given a tree in which links lead to
// another, writable one. What it would find there is not offered, and nothing there changes.
func TestNothingOutsideOfTheTreeIsReadOrWritten(t *testing.T) {
	t.Parallel()
	isFile := func(e fs.DirEntry) bool { return e.Type().IsRegular() }
	random := func(seed uint64) func(string, fs.DirEntry) bool {
		choices := rand.New(rand.NewPCG(seed, 0))
		return func(string, fs.DirEntry) bool { return choices.IntN(20) == 0 }
	}
	outside := t.TempDir() // of all cases, since nothing there changes
	if err := generate(t, everything()).LayOut(outside); err != nil {
		t.Fatal(err)
	}
	before := contents(t, outside)
	t.Cleanup(func() {
		if diff := cmp.Diff(before, contents(t, outside)); diff != "" {
			t.Errorf("the tree outside has changed:\n%s", diff)
		}
	})
	for name, tt := range map[string]struct {
		replace func(path string, e fs.DirEntry) bool
		offers  bool // devices that stay are offered
		made    int  // mediated devices and vGPUs; -1: any number
	}{
		"no link":    {func(string, fs.DirEntry) bool { return false }, true, 3},
		"every file": {func(_ string, e fs.DirEntry) bool { return isFile(e) }, false, 0},
		"every file to write": {func(path string, _ fs.DirEntry) bool {
			return strings.HasSuffix(path, "/create") || strings.HasSuffix(path, "/current_vgpu_type")
		}, true, 0},
		"every function":    {func(path string, e fs.DirEntry) bool { return strings.Contains(path, "/devices/pci") && e.IsDir() }, true, 1}, // except mtty
		"every device":      {func(path string, _ fs.DirEntry) bool { return strings.HasSuffix(filepath.Dir(path), "/devices") }, false, 0},
		"every bus":         {func(path string, e fs.DirEntry) bool { return strings.HasSuffix(filepath.Dir(path), "/bus") }, true, -1},
		"everything":        {func(string, fs.DirEntry) bool { return true }, false, 0},
		"some of all":       {random(1), true, -1},
		"others of all":     {random(2), true, -1},
		"yet others of all": {random(3), true, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := generate(t, everything()).LayOut(dir); err != nil {
				t.Fatal(err)
			}
			if links := linkOut(t, dir, outside, tt.replace); (links == 0) != (name == "no link") {
				t.Fatalf("%d links", links)
			}
			tree, err := sysfs.OpenDir(dir, sysfs.DirOptions{Write: true})
			if err != nil {
				if name == "everything" {
					return
				}
				t.Fatal(err)
			}
			t.Cleanup(func() { tree.Close() })
			drivers := load(t, allOn(), tree)
			for _, report := range driver.DiscoverAll(t.Context(), drivers) {
				for _, d := range report.Devices {
					if !tt.offers && d.Deployables[0].DriverName != "fake" {
						t.Errorf("%s is offered", d.ControlPath.Address())
					}
				}
			}
			if made := useAll(t.Context(), drivers); made != tt.made && tt.made >= 0 {
				t.Errorf("%d devices were made, want %d", made, tt.made)
			}
		})
	}
}
