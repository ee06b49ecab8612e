package servers

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Server is a running server of cysim.
type Server struct {
	PID     int       `json:"pid"`
	Command string    `json:"command"` // serve, placement or cyborg
	URL     string    `json:"url"`
	Started time.Time `json:"started"`
	Machine string    `json:"machine"` // name of the machine, because several may share a home directory
}

// directory is where the files are: each server locks its own until it ends.
func directory() (string, error) {
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "cysim", "servers"), err
}

// Announce adds this process to the list until withdraw is called or the process ends.
func Announce(command, url string, started time.Time) (withdraw func(), err error) {
	dir, err := directory()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := Server{PID: os.Getpid(), Command: command, URL: url, Started: started.UTC()}
	if s.Machine, err = os.Hostname(); err != nil {
		return nil, err
	}
	data, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(dir, s.Machine+"-*.json") // mode 0600
	if err != nil {
		return nil, err
	}
	withdraw = func() {
		_ = file.Close() // before the removal, for Windows
		_ = os.Remove(file.Name())
	}
	if locked, err := tryLock(file); err != nil || !locked {
		withdraw()
		return nil, cmp.Or(err, fmt.Errorf("%s is locked by another process", file.Name()))
	}
	if _, err := file.Write(data); err != nil {
		withdraw()
		return nil, err
	}
	return withdraw, nil
}

// List returns the running servers of this user on this machine, the oldest first. It removes the
// files of servers that ended without doing so.
func List() ([]Server, error) {
	dir, err := directory()
	if err != nil {
		return nil, err
	}
	machine, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var running []Server
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		s, err := read(name)
		switch {
		case err != nil || s.Machine != machine: // its server has just ended, or only begins
		case runs(name):
			running = append(running, s)
		default:
			_ = os.Remove(name) // else the next list does
		}
	}
	slices.SortFunc(running, func(a, b Server) int { return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.PID, b.PID)) })
	return running, nil
}

func read(name string) (s Server, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}
