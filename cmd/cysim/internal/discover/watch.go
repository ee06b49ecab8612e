package discover

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/driver"
)

// watch looks again and again, and writes what changed, until ctx ends.
func (c *Command) watch(ctx context.Context, w io.Writer, tree driver.Tree, drivers []driver.Driver) error {
	ticker := time.NewTicker(c.Watch)
	defer ticker.Stop()
	before := look(ctx, tree, drivers)
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			after := look(ctx, tree, drivers)
			if ctx.Err() != nil {
				return nil
			}
			if err := writeChanges(w, now, before, after); err != nil {
				return err
			}
			before = after
		}
	}
}

// look returns the text about each address.
func look(ctx context.Context, tree driver.Tree, drivers []driver.Driver) map[string]string {
	found := newDiscovery(drivers, driver.DiscoverAll(ctx, drivers))
	found.addPlaces(tree)
	view := driver.NewView(tree)
	told := make(map[string][]string)
	for _, f := range found.Devices {
		text := fmt.Sprintf("offered as %s:%d%s", f.ResourceClass, f.Units, boundTo(view, f.Address))
		for _, warning := range f.Warnings {
			text += ", but " + warning
		}
		told[f.Address] = append(told[f.Address], text)
	}
	for _, l := range found.LeftOut {
		told[l.Address] = append(told[l.Address], "left out by "+l.Driver+": "+l.Reason)
	}
	for _, p := range found.Problems {
		told[p.Address] = append(told[p.Address], strings.TrimSpace("not understood by "+p.Driver+": "+p.Reason+" "+p.File))
	}
	lines := make(map[string]string, len(told))
	for address, texts := range told {
		slices.Sort(texts)
		lines[address] = strings.Join(slices.Compact(texts), "; ")
	}
	return lines
}

// boundTo names the kernel driver of a PCI function.
func boundTo(view *driver.View, address string) string {
	target, err := view.Readlink("bus/pci/devices/" + address + "/driver")
	if err != nil {
		return ""
	}
	return " on driver " + path.Base(target)
}

func writeChanges(w io.Writer, now time.Time, before, after map[string]string) error {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, address := range slices.Sorted(maps.Keys(all)) {
		text, there := after[address]
		switch {
		case before[address] == text && there:
			continue
		case !there:
			text = "removed, was " + before[address]
		}
		name := address
		if name == "" {
			name = "the host"
		}
		if _, err := fmt.Fprintf(w, "%s %s: %s\n", now.UTC().Format(time.RFC3339), name, command.OneLine(text)); err != nil {
			return err
		}
	}
	return nil
}
