package verbatim_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/verbatim"
)

const (
	mdev1 = "6f9619ff-8b86-4011-b42d-00c04fc964ff"
	mdev2 = "7f9619ff-8b86-4011-b42d-00c04fc964ff"
)

// fpgas are two FPGAs and another card.
func fpgas() []driver.Device {
	devices := []driver.Device{card(), card(), card()}
	for i := range devices[:2] {
		devices[i].Type = driver.TypeFPGA
		devices[i].ControlPath.Info = driver.Info{"domain": "0000", "bus": fmt.Sprint("a", i), "device": "00", "function": "0"}
	}
	return devices
}

func dumped(t rapid.TB, d *verbatim.Driver) []byte {
	t.Helper()
	data, err := d.Dump()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func step(t *testing.T, rt *rapid.T) func(*verbatim.Driver) error {
	m := driver.Mdev{UUID: rapid.SampledFrom([]string{mdev1, mdev2, "x"}).Draw(rt, "uuid"), Parent: "0000:af:00.0", Type: "nvidia-35"}
	path := fpgas()[rapid.IntRange(0, 2).Draw(rt, "device")].ControlPath
	image := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(rt, "image")
	switch rapid.IntRange(0, 4).Draw(rt, "kind") {
	case 0, 1:
		return func(d *verbatim.Driver) error { return d.CreateMdev(t.Context(), m) }
	case 2:
		return func(d *verbatim.Driver) error { return d.RemoveMdev(t.Context(), m) }
	case 3:
		return func(d *verbatim.Driver) error { return d.Program(t.Context(), path, "", image) }
	}
	return func(d *verbatim.Driver) error { d.Reboot(); return nil }
}

func TestALoadedDriverRemembersWhatTheDumpedOneDid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d, other := verbatim.New(fpgas()), verbatim.New(fpgas())
		for range rapid.IntRange(0, 10).Draw(rt, "before") {
			_ = step(t, rt)(d)
		}
		_ = step(t, rt)(other)
		once := dumped(rt, d)
		if err := driver.Load(other, once); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(string(once), string(dumped(rt, other))); diff != "" {
			rt.Fatalf("the dump of what was loaded (-want +got):\n%s", diff)
		}
		for range rapid.IntRange(0, 6).Draw(rt, "after") {
			change := step(t, rt)
			if diff := cmp.Diff(fmt.Sprint(change(d)), fmt.Sprint(change(other))); diff != "" {
				rt.Fatalf("(-kept +loaded):\n%s", diff)
			}
		}
		if diff := cmp.Diff(string(dumped(rt, d)), string(dumped(rt, other))); diff != "" {
			rt.Fatalf("dump (-kept +loaded):\n%s", diff)
		}
	})
}

// busy is a driver that remembers one of everything.
func busy(t testing.TB) (*verbatim.Driver, string) {
	t.Helper()
	d := verbatim.New(fpgas())
	if err := d.CreateMdev(t.Context(), driver.Mdev{UUID: mdev1, Parent: "0000:af:00.0", Type: "nvidia-35"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Program(t.Context(), fpgas()[0].ControlPath, "", []byte{1, 2}); err != nil {
		t.Fatal(err)
	}
	return d, string(dumped(t, d))
}

func TestABadDumpIsRefusedAndChangesNothing(t *testing.T) {
	t.Parallel()
	d, before := busy(t)
	replaced := func(old, new string) string {
		if !strings.Contains(before, old) {
			t.Fatalf("no %s in the dump", old)
		}
		return strings.Replace(before, old, new, 1)
	}
	mdev := `{"uuid":"` + mdev1 + `","parent":"0000:af:00.0","type":"nvidia-35"},`
	image := `{"control_path":"x","data":""},`
	for _, tt := range []struct{ name, text, want string }{
		{"something follows", before + "{}", "something follows"},
		{"unknown field", replaced(`"mdevs"`, `"devices"`), `unknown field "devices"`},
		{"other version", replaced(`"schema_version": 1`, `"schema_version": 2`), "schema_version 2"},
		{"null", `null`, "schema_version 0"},
		{"cut", before[:len(before)/2], "unexpected EOF"},
		{"mdev twice", replaced(`"mdevs": [`, `"mdevs": [`+mdev), "mdev " + mdev1 + " appears twice"},
		{"no uuid", replaced(mdev1, "mdev"), `mdev uuid "mdev"`},
		{"a way out", replaced("0000:af:00.0", "../.."), `parent "../.."`},
		{"image of no FPGA", replaced(`"images": [`, `"images": [`+image), `image of "x"`},
		{"image without data", replaced(`"data": "`, `"data": null, "control_path": "`), "image of"},
	} {
		err := driver.Load(d, []byte(tt.text))
		if !errors.Is(err, driver.ErrSnapshot) || !strings.Contains(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: %v, want ErrSnapshot with %s", tt.name, err, tt.want)
		}
		if diff := cmp.Diff(before, string(dumped(t, d))); diff != "" {
			t.Fatalf("%s: refused, yet changed (-before +after):\n%s", tt.name, diff)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"schema_version": 1}`))
	_, text := busy(f)
	f.Add([]byte(text))
	f.Fuzz(func(t *testing.T, data []byte) {
		d := verbatim.New(fpgas())
		before := dumped(t, d)
		if err := driver.Load(d, data); err != nil {
			if !errors.Is(err, driver.ErrSnapshot) || !bytes.Equal(before, dumped(t, d)) {
				t.Fatalf("refused, yet changed: %v", err)
			}
			return
		}
		once := dumped(t, d)
		if err := driver.Load(d, once); err != nil {
			t.Fatal(fmt.Errorf("its own dump: %w", err))
		}
		if twice := dumped(t, d); !bytes.Equal(once, twice) {
			t.Fatalf("dumps differ:\n%s\n%s", once, twice)
		}
	})
}
