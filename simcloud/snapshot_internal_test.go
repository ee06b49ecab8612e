package simcloud

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/verbatim"
)

// unreadable is a tree without any readable directory.
type unreadable struct{ driver.Tree }

func (unreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrPermission}
}

func TestAnUnreadableHostIsALeak(t *testing.T) {
	t.Parallel()
	m := &machine{host: Host{Name: "cn0"}, simulated: []driver.Machine{verbatim.New(nil)}, tree: unreadable{}}
	if _, err := m.mdevs(); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got error %v", err)
	}
	s := new(snapshot)
	s.readMdevs(m, m.host.Name)
	if len(s.Unread) != 1 || s.Unread[0].Kind != LeakHost || s.Unread[0].Subject != "cn0" {
		t.Errorf("leaks: %+v", s.Unread)
	}
}
