package hpts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// clocks lists the clocks of PCI functions. What cannot be parsed is a problem, what cannot be
// read an error; a kernel without such clocks has no directory for them.
func clocks(ctx context.Context, view *driver.View) ([]clock, []driver.Problem, error) {
	names, err := view.Names(clockDir)
	switch {
	case file.Unread(err):
		return nil, nil, fmt.Errorf("%s: %w", clockDir, err)
	case err != nil:
		return nil, []driver.Problem{{File: clockDir, Err: err}}, ctx.Err()
	}
	var list []clock
	var problems []driver.Problem
	for _, name := range names {
		c, problem := readClock(view, name)
		if problem.Address == "" && file.Unread(problem.Err) {
			return nil, nil, fmt.Errorf("%s: %w", problem.File, problem.Err)
		}
		if problem.Err != nil {
			problems = append(problems, problem)
		}
		if c.name != "" {
			list = append(list, c)
		}
	}
	return list, problems, ctx.Err()
}

// readClock reads one clock, and what is wrong with it. It is empty when the clock is not on a
// PCI function, such as the clock of a hypervisor or of a device on another bus.
func readClock(view *driver.View, name string) (c clock, problem driver.Problem) {
	dir := clockDir + "/" + name
	address, err := view.LinkedFunction(dir + "/device")
	switch {
	case errors.Is(err, driver.ErrPCIAddress):
		return clock{}, driver.Problem{}
	case errors.Is(err, fs.ErrNotExist):
		_, err := view.ReadDir(dir) // the clock itself may be out of reach
		return clock{}, driver.Problem{File: dir, Err: file.Cause(err)}
	case err != nil:
		return clock{}, driver.Problem{File: dir + "/device", Err: err}
	}
	c.address, c.name = address, name
	c.called, err = view.ReadText(dir + "/clock_name")
	if len(c.called) > maxName || strings.ContainsFunc(c.called, unprintable) {
		c.called, err = "", fmt.Errorf("%w: %d bytes that are not a name", driver.ErrGarbled, len(c.called))
	}
	return c, driver.Problem{Address: c.address.String(), File: dir + "/clock_name", Err: err}
}

func unprintable(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }

// of returns the clocks of one function.
func of(list []clock, address driver.PCIAddress) []clock {
	return slices.DeleteFunc(slices.Clone(list), func(c clock) bool { return c.address != address })
}
