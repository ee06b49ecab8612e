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

// layout is how a kernel driver shows FPGAs: a container for each PCI function, in it a management
// engine for what can be programmed, and a port for each function of the user.
type layout struct {
	class, container, engine, port string // a directory, and the beginnings of names
	// kind is where an engine has the type of its region, and state where the state of its
	// fpga_manager, each a path in which * ends the beginning of a name.
	kind, state string
	dfl         bool // the device feature list of the kernel
}

func layouts() []layout {
	return []layout{
		{class: "class/fpga", container: "intel-fpga-dev.", engine: "intel-fpga-fme.", port: "intel-fpga-port.", kind: "pr/interface_id"},
		{
			class: "class/fpga_region", container: "region", engine: "dfl-fme.", port: "dfl-port.",
			kind: "dfl-fme-region.*/fpga_region/region*/compat_id", state: "dfl-fme-mgr.*/fpga_manager/fpga*/state", dfl: true,
		},
	}
}

const maxPorts = 1 << 16

// container is the directory of one.
type container struct {
	layout
	dir string
}

// containersOf finds the containers by the functions they belong to. The error is the error of
// ctx, or of an unreadable name.
func containersOf(ctx context.Context, view *driver.View) (map[driver.PCIAddress][]container, []driver.Problem, error) {
	functions, unreadable, err := view.PCIFunctions(ctx)
	if err != nil {
		return nil, nil, err
	}
	containers := make(map[driver.PCIAddress][]container)
	var problems []driver.Problem
	for _, l := range layouts() {
		names, err := view.Names(l.class)
		switch {
		case file.Unread(err):
			return nil, nil, fmt.Errorf("%s: %w", l.class, err)
		case err != nil:
			problems = append(problems, driver.Problem{File: l.class, Err: err})
			continue
		}
		for _, name := range names {
			if !strings.HasPrefix(name, l.container) {
				continue
			}
			link := l.class + "/" + name + "/device"
			at, err := view.LinkedFunction(link)
			switch {
			case errors.Is(err, driver.ErrPCIAddress) && l.dfl: // a region of an engine, or of another FPGA
				continue
			case file.Unread(err) && !errors.Is(err, driver.ErrPCIAddress):
				return nil, nil, fmt.Errorf("%s: %w", link, err)
			case err == nil && !slices.ContainsFunc(functions, func(f driver.PCIFunction) bool { return f.Address == at }):
				if slices.ContainsFunc(unreadable, func(p driver.Problem) bool { return p.Address == at.String() }) {
					continue
				}
				err = fmt.Errorf("%w: it leads to %s, which is not on the bus or not understood", driver.ErrGarbled, at)
			}
			if err != nil {
				problems = append(problems, driver.Problem{File: link, Err: err})
				continue
			}
			containers[at] = append(containers[at], container{l, l.class + "/" + name})
		}
	}
	return containers, problems, nil
}

// paths are the files of a pattern below a directory.
func paths(view *driver.View, dir, pattern string) ([]string, error) {
	found := []string{dir}
	for part := range strings.SplitSeq(pattern, "/") {
		prefix, many := strings.CutSuffix(part, "*")
		var next []string
		for _, name := range found {
			if !many {
				next = append(next, name+"/"+part)
				continue
			}
			names, err := view.Names(name)
			if err != nil {
				return nil, driver.Problem{File: name, Err: err}
			}
			for _, each := range names {
				if strings.HasPrefix(each, prefix) {
					next = append(next, name+"/"+each)
				}
			}
		}
		found = next
	}
	return found, nil
}

// engine is a management engine: one region.
type engine struct {
	number int
	kind   string // the region's type, 32 digits; empty if the kernel does not say
	ports  int    // how many it says it has, or -1
	failed string // why it cannot be used
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
	dfl    bool
}

// read reads the containers of a function. What cannot be parsed is a problem.
func (v *intelVisit) read(u *driver.Unit) (c contents, ok bool) {
	ok = true
	fail := func(name string, err error) {
		v.Report.AddProblem(u.Address.String(), driver.Problem{File: name, Err: file.Cause(err)})
		ok = false
	}
	for _, in := range v.containers[u.Address] {
		entries, err := v.View.ReadDir(in.dir)
		if err != nil {
			fail(in.dir, err)
			c.broken = true
			continue
		}
		c.dfl = c.dfl || in.dfl
		for _, e := range entries {
			name := in.dir + "/" + e.Name()
			var at string
			var err error
			switch {
			case strings.HasPrefix(e.Name(), in.engine):
				at, err = c.addEngine(v.View, name, in.layout)
				c.broken = c.broken || err != nil
			case strings.HasPrefix(e.Name(), in.port):
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

func (c *contents) addEngine(view *driver.View, dir string, l layout) (file string, err error) {
	e := engine{ports: -1}
	if e.number, err = numberOf(dir); err != nil {
		return dir, err
	}
	if file, err = e.readKind(view, dir, l.kind); err != nil {
		return file, err
	}
	if l.state != "" {
		if file, err = e.readState(view, dir, l.state); err != nil {
			return file, err
		}
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

// readKind reads the type of a region, which the kernel may show more than once.
func (e *engine) readKind(view *driver.View, dir, pattern string) (file string, err error) {
	names, err := paths(view, dir, pattern)
	if err != nil {
		return dir, err
	}
	for _, name := range names {
		kind, err := readID(view, name)
		switch {
		case err != nil:
			return name, err
		case e.kind != "" && kind != e.kind:
			return name, fmt.Errorf("%w: %q, and %q for another port", driver.ErrGarbled, kind, e.kind)
		}
		e.kind = kind
	}
	return "", nil
}

// readState reads the state of the fpga_manager. The kernel does not know it before the first
// programming. While the region is programmed nothing is known of it, which is an error.
func (e *engine) readState(view *driver.View, dir, pattern string) (file string, err error) {
	names, err := paths(view, dir, pattern)
	if err != nil {
		return dir, err
	}
	for _, name := range names {
		state, err := view.ReadText(name)
		if err != nil {
			return name, err
		}
		switch state {
		case "unknown", "operating":
		case "firmware request", "write init", "write", "write complete":
			return name, fmt.Errorf("the region is being programmed: %s", state)
		default:
			e.failed = fmt.Sprintf("its fpga_manager is in the state %q", state)
			if status, err := view.ReadText(strings.TrimSuffix(name, "state") + "status"); err == nil && status != "" {
				e.failed += ": " + strings.ReplaceAll(status, "\n", ", ")
			}
		}
	}
	return "", nil
}

func (c *contents) addPort(view *driver.View, dir string) (file string, err error) {
	var p port
	if p.number, err = numberOf(dir); err != nil {
		return dir, err
	}
	p.function, err = readID(view, dir+"/afu_id")
	c.ports = append(c.ports, p) // it exists, with any content
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

// readID reads 32 hexadecimal digits; a missing file is an empty id.
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
