package sysfs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// answer is what reading a name by each method gives, without the words of errors.
type answer struct {
	File, Link string
	Entries    []string
	Errs       [3]bool
}

func ask(tree *sysfs.DirTree, name string) answer {
	var a answer
	var errs [3]error
	var data []byte
	var entries []fs.DirEntry
	data, errs[0] = tree.ReadFile(name)
	a.Link, errs[1] = tree.Readlink(name)
	entries, errs[2] = tree.ReadDir(name)
	a.File = string(data)
	for _, e := range entries {
		a.Entries = append(a.Entries, e.Name()+" "+e.Type().String())
	}
	for i, err := range errs {
		a.Errs[i] = err != nil
	}
	return a
}

// One call of openat2 must find what os.Root finds, and nothing else.
func TestBothWaysToAFileAgree(t *testing.T) {
	t.Parallel()
	dir := broken(t)
	fast, slow := open(t, dir, sysfs.DirOptions{}), open(t, dir, sysfs.DirOptions{})
	slow.ThroughRoot()
	if !fast.OneCall() {
		t.Skip("no openat2 here")
	}
	names := []string{".", "..", "bus/../devices", "class/net/eth2/device/vendor", "class/net/eth2/device/../../devices"}
	for name := range wantRefusals() {
		names = append(names, name)
	}
	tree := os.DirFS(dir)
	if err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		names = append(names, name, path.Join(name, "none"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if diff := cmp.Diff(ask(slow, name), ask(fast, name)); diff != "" {
			t.Errorf("%q (-os.Root +openat2):\n%s", name, diff)
		}
	}
	if !fast.OneCall() {
		t.Error("openat2 was given up on the way")
	}
}

// A link that is turned outwards while the tree is read is never followed.
func TestALinkTurnedOutwardsIsNotFollowed(t *testing.T) {
	t.Parallel()
	dir := onDisk(t)
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	link, spare := filepath.Join(dir, "devices", "link"), filepath.Join(dir, "devices", "spare")
	if err := os.WriteFile(filepath.Join(dir, "devices", "inside"), []byte("inside"), 0o644); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	done := make(chan error)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			err := os.Symlink([]string{"inside", outside}[i%2], spare)
			if err == nil {
				err = os.Rename(spare, link)
			}
			if err != nil {
				<-stop
				done <- err
				return
			}
		}
	}()
	tree := open(t, dir, sysfs.DirOptions{})
	for range 5000 {
		if data, _ := tree.ReadFile("devices/link"); strings.Contains(string(data), "secret") {
			t.Fatal("read a file outside of the tree")
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
