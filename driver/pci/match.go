package pci

import (
	"fmt"

	"github.com/gocyborg/gocyborg/driver"
)

// Check tells whether the entries can be read; the error wraps ErrConfig and
// names the entry.
func (w Whitelist) Check() error {
	_, err := w.Match(driver.PCIFunction{})
	return err
}

// Match returns the index of the first entry that admits a function, or -1. An
// entry with a network interface's name admits none, since no tree is looked at.
// The error wraps ErrConfig.
func (w Whitelist) Match(f driver.PCIFunction) (int, error) {
	first := -1
	for i, spec := range w {
		m, err := newMatcher(spec)
		if err != nil {
			return -1, fmt.Errorf("%w: whitelist entry %d: %w", ErrConfig, i, err)
		}
		if first < 0 && m.fits(f, nil) {
			first = i
		}
	}
	return first, nil
}
