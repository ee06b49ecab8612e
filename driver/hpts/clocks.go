package hpts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/file"
)

const (
	clockDir = "class/ptp"
	maxName  = 64 // twice what the kernel has room for
)

// clock is one clock that the kernel knows.
type clock struct {
	address driver.PCIAddress
	name    string // ptp0
	called  string // what its driver calls it; empty if that could not be read
}

// clocks lists the clocks of PCI functions. What cannot be parsed is a problem; a
// kernel without such clocks has no directory for them.
func clocks(ctx context.Context, view *driver.View) ([]clock, []driver.Problem, error) {
	entries, err := view.ReadDir(clockDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, ctx.Err()
	}
	if err != nil {
		return nil, []driver.Problem{{File: clockDir, Err: file.Cause(err)}}, ctx.Err()
	}
	var list []clock
	var problems []driver.Problem
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		c, found, problem := readClock(view, e.Name())
		if problem != nil {
			problems = append(problems, *problem)
		}
		if found {
			list = append(list, c)
		}
	}
	return list, problems, nil
}

// readClock reads one clock. It is not found on a PCI function when it is of a
// hypervisor, or of a device on another bus.
func readClock(view *driver.View, name string) (clock, bool, *driver.Problem) {
	dir := clockDir + "/" + name
	target, err := view.Readlink(dir + "/device")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := view.ReadDir(dir); err != nil { // the clock itself is out of reach
			return clock{}, false, &driver.Problem{File: dir, Err: file.Cause(err)}
		}
		return clock{}, false, nil
	}
	if err != nil {
		return clock{}, false, &driver.Problem{File: dir + "/device", Err: file.Cause(err)}
	}
	address, err := driver.ParsePCIAddress(path.Base(target))
	if err != nil {
		return clock{}, false, nil
	}
	c := clock{address: address, name: name}
	c.called, err = view.ReadText(dir + "/clock_name")
	if len(c.called) > maxName || strings.ContainsFunc(c.called, unprintable) {
		c.called, err = "", fmt.Errorf("%w: %d bytes that are no name", driver.ErrGarbled, len(c.called))
	}
	if err != nil {
		return c, true, &driver.Problem{Address: address.String(), File: dir + "/clock_name", Err: file.Cause(err)}
	}
	return c, true, nil
}

func unprintable(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }

// of returns the clocks of one function.
func of(list []clock, address driver.PCIAddress) []clock {
	return slices.DeleteFunc(slices.Clone(list), func(c clock) bool { return c.address != address })
}
