package driver_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
)

func TestParsePCIAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want string // "" for an error
	}{
		{"0000:3b:00.0", "0000:3b:00.0"},
		{"0000:FF:1F.7", "0000:ff:1f.7"},
		{"10000:e1:00.0", "10000:e1:00.0"},
		{"ffffffff:00:00.0", "ffffffff:00:00.0"},
		{"", ""}, {"3b:00.0", ""}, {"0000:3b:00", ""}, {"0000:3b:00.8", ""}, {"0000:3b:20.0", ""},
		{"000:3b:00.0", ""}, {"100000000:3b:00.0", ""}, {"0000:3:00.0", ""}, {"0000:3b:0.0", ""},
		{"0000:3b:00.00", ""}, {"0000:3b:00.0 ", ""}, {"+000:3b:00.0", ""}, {"0x00:3b:00.0", ""},
		{"0000:3b:00:00.0", ""}, {"0000:g0:00.0", ""}, {"0000:3b:00.0\n", ""}, {"0_00:3b:00.0", ""},
	} {
		got, err := driver.ParsePCIAddress(tt.text)
		switch {
		case tt.want == "" && !errors.Is(err, driver.ErrPCIAddress):
			t.Errorf("ParsePCIAddress(%q) = %v, %v, want ErrPCIAddress", tt.text, got, err)
		case tt.want != "" && (err != nil || got.String() != tt.want):
			t.Errorf("ParsePCIAddress(%q) = %v, %v, want %s", tt.text, got, err, tt.want)
		}
	}
}

func TestPCIAddressInfoIsFourTwoTwoOne(t *testing.T) {
	t.Parallel()
	a, err := driver.ParsePCIAddress("0000:af:00.1")
	if err != nil {
		t.Fatal(err)
	}
	want := driver.Info{"domain": "0000", "bus": "af", "device": "00", "function": "1"}
	if diff := cmp.Diff(want, a.Info()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := a.ControlPath().Key(); got != `{"bus":"af","device":"00","domain":"0000","function":"1"}` {
		t.Errorf("Key() = %s", got)
	}
}

func TestPCIAddressesAreOrderedByNumber(t *testing.T) {
	t.Parallel()
	texts := []string{"0000:02:00.0", "0000:10:00.0", "0000:10:00.1", "0000:10:01.0", "0001:00:00.0", "10000:00:00.0"}
	for i := 1; i < len(texts); i++ {
		a, _ := driver.ParsePCIAddress(texts[i-1])
		b, _ := driver.ParsePCIAddress(texts[i])
		if a.Compare(b) >= 0 || b.Compare(a) <= 0 || a.Compare(a) != 0 {
			t.Errorf("%s is not before %s", a, b)
		}
	}
}

func FuzzPCIAddress(f *testing.F) {
	for _, seed := range []string{"0000:3b:00.0", "10000:e1:1f.7", "", "::.", "0000:3b:00.8", "0000:3B:00.0", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := driver.ParsePCIAddress(text)
		if err != nil {
			if !errors.Is(err, driver.ErrPCIAddress) {
				t.Errorf("ParsePCIAddress(%q): %v does not wrap ErrPCIAddress", text, err)
			}
			return
		}
		if len(text) == len("0000:00:00.0") && a.String() != strings.ToLower(text) {
			t.Errorf("ParsePCIAddress(%q).String() = %q", text, a)
		}
		if back, err := driver.ParsePCIAddress(a.String()); err != nil || back != a {
			t.Errorf("%q reads back as %v, %v", a, back, err)
		}
		if back, err := driver.PCIAddressOf(a.Info()); err != nil || back != a {
			t.Errorf("the fields of %q read back as %v, %v", a, back, err)
		}
	})
}

func TestAddressesAreWrittenAsTheKernelDoes(t *testing.T) {
	t.Parallel()
	for _, a := range []driver.PCIAddress{{}, {0x10000, 0xe1, 0, 7}, {0xffffffff, 0xff, 0x1f, 0}, {0xfff, 0xf, 1, 1}, {1, 0x10, 0x10, 2}} {
		if want := fmt.Sprintf("%04x:%02x:%02x.%d", a.Domain, a.Bus, a.Device, a.Function); a.String() != want {
			t.Errorf("%s, want %s", a, want)
		}
	}
}
