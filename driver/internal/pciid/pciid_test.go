package pciid_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/pciid"
)

func TestVendorsHaveWordsThatCanBeTraits(t *testing.T) {
	t.Parallel()
	for id := range 1 << 16 {
		word := pciid.Word(uint16(id))
		if _, err := driver.CustomName(word); err != nil {
			t.Errorf("%04x: %v", id, err)
		}
		if title := pciid.Title(uint16(id)); (title == "") != (word == fmt.Sprintf("%04x", id)) {
			t.Errorf("%04x: word %q with title %q", id, word, title)
		}
	}
	for text, want := range map[string]uint16{"1bd4": 0x1bd4, "0x1BD4": 0x1bd4, "ffff": 0xffff} {
		if got, err := pciid.Parse(text); got != want || err != nil {
			t.Errorf("%q: %04x, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0000", "1bd", "1bd40", "0x", "+bd4", "wxyz", " 1bd4"} {
		if got, err := pciid.Parse(text); !errors.Is(err, driver.ErrName) {
			t.Errorf("%q: %04x, %v, want ErrName", text, got, err)
		}
	}
}
