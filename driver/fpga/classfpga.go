package fpga

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/file"
)

// What Intel's kernel driver makes: a container for each PCI function it drives, in it a
// management engine for what can be programmed, and a port for each function of the user.
const (
	classDir        = "class/fpga"
	containerPrefix = "intel-fpga-dev."
	enginePrefix    = "intel-fpga-fme."
	portPrefix      = "intel-fpga-port."

	maxPorts = 1 << 16
)

// containersOf finds the directories of the containers by the functions they belong to.
// The error is that of ctx, or that of a name that cannot be read.
func containersOf(ctx context.Context, view *driver.View) (map[driver.PCIAddress][]string, []driver.Problem, error) {
	functions, unreadable, err := view.PCIFunctions(ctx)
	if err != nil {
		return nil, nil, err
	}
	names, err := view.Names(classDir)
	switch {
	case file.Unread(err):
		return nil, nil, fmt.Errorf("%s: %w", classDir, err)
	case err != nil:
		return nil, []driver.Problem{{File: classDir, Err: err}}, nil
	}
	containers := make(map[driver.PCIAddress][]string)
	var problems []driver.Problem
	for _, name := range names {
		if !strings.HasPrefix(name, containerPrefix) {
			continue
		}
		link := classDir + "/" + name + "/device"
		at, err := view.LinkedFunction(link)
		if file.Unread(err) && !errors.Is(err, driver.ErrPCIAddress) {
			return nil, nil, fmt.Errorf("%s: %w", link, err)
		}
		if err == nil && !slices.ContainsFunc(functions, func(f driver.PCIFunction) bool { return f.Address == at }) {
			if slices.ContainsFunc(unreadable, func(p driver.Problem) bool { return p.Address == at.String() }) {
				continue
			}
			err = fmt.Errorf("%w: it leads to %s, which is not on the bus or not understood", driver.ErrGarbled, at)
		}
		if err != nil {
			problems = append(problems, driver.Problem{File: link, Err: err})
			continue
		}
		containers[at] = append(containers[at], classDir+"/"+name)
	}
	return containers, problems, nil
}

// engine is a management engine: one region.
type engine struct {
	number int
	kind   string // the region's type, 32 digits; empty if the kernel does not say
	ports  int    // how many it says it has, or -1
}

// port is the place of one function of the user.
type port struct {
	number   int
	function string // 32 digits; empty if none is loaded
}

// contents are the engines and the ports of a function, in the order of their numbers.
type contents struct {
	engines []engine
	ports   []port
	// broken is set when it is not known which regions there are.
	broken bool
}

// read reads the containers of a function. What cannot be parsed is a problem.
func (v *intelVisit) read(u *driver.Unit) (c contents, ok bool) {
	ok = true
	fail := func(name string, err error) {
		v.Report.AddProblem(u.Address.String(), driver.Problem{File: name, Err: file.Cause(err)})
		ok = false
	}
	for _, dir := range v.containers[u.Address] {
		entries, err := v.View.ReadDir(dir)
		if err != nil {
			fail(dir, err)
			c.broken = true
			continue
		}
		for _, e := range entries {
			name := dir + "/" + e.Name()
			var at string
			var err error
			switch {
			case strings.HasPrefix(e.Name(), enginePrefix):
				at, err = c.addEngine(v.View, name)
				c.broken = c.broken || err != nil
			case strings.HasPrefix(e.Name(), portPrefix):
				at, err = c.addPort(v.View, name)
			}
			if err != nil {
				fail(at, err)
			}
		}
	}
	slices.SortFunc(c.engines, func(a, b engine) int { return a.number - b.number })
	slices.SortFunc(c.ports, func(a, b port) int { return a.number - b.number })
	return c, ok
}

func (c *contents) addEngine(view *driver.View, dir string) (file string, err error) {
	e := engine{ports: -1}
	if e.number, err = numberOf(dir); err != nil {
		return dir, err
	}
	if e.kind, err = readID(view, dir+"/pr/interface_id"); err != nil {
		return dir + "/pr/interface_id", err
	}
	switch n, err := view.ReadCount(dir+"/ports_num", maxPorts); {
	case err == nil:
		e.ports = n
	case !errors.Is(err, fs.ErrNotExist):
		return dir + "/ports_num", err
	}
	c.engines = append(c.engines, e)
	return "", nil
}

func (c *contents) addPort(view *driver.View, dir string) (file string, err error) {
	var p port
	if p.number, err = numberOf(dir); err != nil {
		return dir, err
	}
	p.function, err = readID(view, dir+"/afu_id")
	c.ports = append(c.ports, p) // it is there, whatever it holds
	return dir + "/afu_id", err
}

// numberOf is the number at the end of a name.
func numberOf(name string) (int, error) {
	text := name[strings.LastIndexByte(name, '.')+1:]
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("%w: the name has no number", driver.ErrGarbled)
	}
	return int(n), nil
}

// readID reads 32 hexadecimal digits; a file that is not there is none.
func readID(view *driver.View, file string) (string, error) {
	text, err := view.ReadText(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id, ok := normalID(text)
	if !ok {
		return "", fmt.Errorf("%w: want 32 hexadecimal digits", driver.ErrGarbled)
	}
	return id, nil
}
