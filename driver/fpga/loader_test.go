package fpga_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/drivertest"
	"github.com/gocyborg/gocyborg/driver/fpga"
	"github.com/gocyborg/gocyborg/driver/sysfs"
)

// orders are what the loader of the tests does. They are next to the metadata of an image.
type orders struct {
	Tells bool   `json:"tells,omitempty"` // what it was given, and fails
	Says  string `json:"says,omitempty"`  // to its standard error
	File  string `json:"file,omitempty"`  // to be written
	Text  string `json:"text,omitempty"`  // what is written
}

// TestMain is the loader, too: the drivers call the test's binary with the verb program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "program" {
		if err := load(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func load() error {
	var in map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	image, err := os.ReadFile(in["image_file"].(string))
	if err != nil {
		return err
	}
	var told struct{ Loader orders }
	if err := json.Unmarshal(image, &told); err != nil {
		return err
	}
	if told.Loader.Tells {
		delete(in, "image_file")
		given, err := json.Marshal(in)
		return errors.Join(errors.New(string(given)), err)
	}
	if told.Loader.Says != "" {
		fmt.Fprintln(os.Stderr, told.Loader.Says)
	}
	if told.Loader.File == "" {
		return nil
	}
	return os.WriteFile(told.Loader.File, []byte(told.Loader.Text), 0o600)
}

// self is the path of the loader.
func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func programmer(t testing.TB) func(driver.Programmer, error) driver.Programmer {
	return func(d driver.Programmer, err error) driver.Programmer {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// ordered is an image for regions of a kind, with orders for the loader.
func ordered(t testing.TB, kind, function string, o orders) []byte {
	t.Helper()
	image := map[string]any{"accelerator-clusters": []map[string]string{{"accelerator-type-uuid": id(function)}}}
	if kind != "" {
		image["interface-uuid"] = id(kind)
	}
	data, err := json.Marshal(map[string]any{"afu-image": image, "loader": o})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// dflCard has a device feature list with one port.
func dflCard(address string, n int, kind, function string) sysfs.PCIDevice {
	d := sysfs.PCIDevice{
		Address: address, Vendor: "8086", Product: "0b30", Class: "1200", Driver: "dfl-pci",
		FPGA: &sysfs.FPGA{Dev: n, DFL: true, Ports: []sysfs.FPGAPort{{Number: n, AFUID: id(function)}}},
	}
	if kind != "" {
		d.FPGA.InterfaceID = id(kind)
	}
	return d
}

// directory is a copy of a tree in memory.
func directory(t testing.TB, m *sysfs.Memory) (*sysfs.DirTree, string) {
	t.Helper()
	root := t.TempDir()
	if err := m.LayOut(root); err != nil {
		t.Fatal(err)
	}
	tree, err := sysfs.OpenDir(root, sysfs.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree, root
}

func TestADeviceFeatureListIsReported(t *testing.T) {
	t.Parallel()
	const state = "class/fpga_manager/fpga1/state"
	set := func(name, text string) func(*sysfs.Memory) {
		return func(m *sysfs.Memory) {
			target, err := m.Readlink("class/fpga_manager/fpga1")
			if err != nil {
				t.Error(err)
			}
			m.SetFile(strings.TrimPrefix(target, "../../")+"/"+name, []byte(text))
		}
	}
	const offered = "cn0_0000:5f:00.0 1 of 5f.0: FPGA_INTEL FPGA_INTEL_PAC_N3000 FPGA_FUNCTION_ID_INTEL_b FPGA_REGION_INTEL_2 PROGRAMMABLE"
	for name, tt := range map[string]struct {
		change  func(*sysfs.Memory)
		want    string
		leftOut string
		problem string
	}{
		"as the kernel has it at the start": {want: offered},
		"programmed":                        {change: set("state", "operating\n"), want: offered},
		"failed":                            {change: set("state", "write error\n"), leftOut: `0000:5f:00.0 region 0: its fpga_manager is in the state "write error"`},
		"held in reset":                     {change: set("state", "reset\n"), leftOut: `0000:5f:00.0 region 0: its fpga_manager is in the state "reset"`},
		"being programmed":                  {change: set("state", "write\n"), problem: "the region is being programmed: write"},
		"a state that cannot be read":       {change: func(m *sysfs.Memory) { set("state", "")(m); deny(t, m, state) }, problem: "permission denied"},
		"a function that cannot be read":    {change: func(m *sysfs.Memory) { deny(t, m, "class/fpga_region/region1/dfl-port.1/afu_id") }, problem: "permission denied"},
		"types that differ": {change: func(m *sysfs.Memory) {
			m.SetFile("class/fpga_region/region1/dfl-fme.1/dfl-fme-region.9/fpga_region/region1009/compat_id", []byte(id("3")+"\n"))
		}, problem: "for another port"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := drivertest.Tree(t, dflCard("0000:5f:00.0", 1, "2", "b"))
			if tt.change != nil {
				tt.change(m)
			}
			report := intel(t, fpga.Config{}, m)
			if got := strings.Join(lines(report), "\n"); got != tt.want {
				t.Errorf("offered %q, want %q", got, tt.want)
			}
			if got := strings.Join(leftOut(report), "\n"); got != tt.leftOut {
				t.Errorf("left out %q, want %q", got, tt.leftOut)
			}
			problem := ""
			for _, p := range report.Problems {
				if p.Address != "0000:5f:00.0" {
					t.Errorf("problem of %q: %v", p.Address, p)
				}
				problem += p.Error()
			}
			if tt.problem == "" && problem != "" || !strings.Contains(problem, tt.problem) {
				t.Errorf("problems %q, want %q", problem, tt.problem)
			}
		})
	}
}

func deny(t testing.TB, m *sysfs.Memory, name string) {
	t.Helper()
	if err := m.Deny(name); err != nil {
		t.Error(err)
	}
}

func TestADeviceFeatureListBesideIntelsOwnDriver(t *testing.T) {
	t.Parallel()
	report := intel(t, fpga.Config{}, drivertest.Tree(t, intelCard(pf, 0, "1", "a", 0), dflCard("0000:5f:00.0", 1, "2", "b"), dflCard("0000:af:00.0", 2, "", "c")))
	if got := len(lines(report)); got != 3 || len(report.Problems) > 0 {
		t.Errorf("%d cards, problems %v; want 3 and none:\n%s", got, report.Problems, strings.Join(lines(report), "\n"))
	}
}

// A guest has its card on vfio-pci, where the kernel shows no device feature list.
func TestACardWithoutANameStaysTheDriversWhileAGuestHasIt(t *testing.T) {
	t.Parallel()
	card := dflCard("0000:5f:00.0", 1, "2", "b")
	card.Product = "bcce"
	bound := sysfs.PCIDevice{Address: card.Address, Vendor: card.Vendor, Product: card.Product, Class: card.Class, Driver: "vfio-pci"}
	for want, device := range map[string]sysfs.PCIDevice{
		"cn0_0000:5f:00.0 1 of 5f.0: FPGA_INTEL FPGA_FUNCTION_ID_INTEL_b FPGA_REGION_INTEL_2 PROGRAMMABLE": card,
		"cn0_0000:5f:00.0 1 of 5f.0: FPGA_INTEL PROGRAMMABLE":                                              bound,
	} {
		if got := strings.Join(lines(intel(t, fpga.Config{}, drivertest.Tree(t, device))), "\n"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestVirtualFunctionsOfADeviceFeatureListAreReported(t *testing.T) {
	t.Parallel()
	card := dflCard("0000:5f:00.0", 1, "2", "b")
	card.FPGA.Ports[0].VF, card.VFs = 1, &sysfs.VFs{Total: 1, Enabled: 1, Product: "0b31", Driver: "dfl-pci"}
	report := intel(t, fpga.Config{}, drivertest.Tree(t, card))
	want := "cn0_0000:5f:00.0 1 of 5f.1: FPGA_INTEL FPGA_INTEL_PAC_N3000 FPGA_FUNCTION_ID_INTEL_b FPGA_REGION_INTEL_2 PROGRAMMABLE"
	if got := strings.Join(lines(report), "\n"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The loader is a program outside of the tree.
func TestALoaderProgramsADeviceFeatureList(t *testing.T) {
	t.Parallel()
	const afu = "class/fpga_region/region1/dfl-port.1/afu_id"
	for name, tt := range map[string]struct {
		kind     string // of the image
		text     string // that the loader writes
		loader   bool
		noKind   bool
		want     error
		contains string
		after    string
	}{
		"loads what the image says":    {kind: "2", text: id("d") + "\n", loader: true, after: id("d")},
		"no loader":                    {kind: "2", want: fpga.ErrNoLoader, contains: "--bitstream-loader", after: id("b")},
		"an image for another region":  {kind: "3", text: id("d") + "\n", loader: true, want: fpga.ErrBitstream, contains: "for regions of type " + id("3"), after: id("b")},
		"an image for no region":       {kind: "", text: id("d") + "\n", loader: true, want: fpga.ErrBitstream, contains: "does not say", after: id("b")},
		"nothing was loaded":           {kind: "2", text: id("b") + "\n", loader: true, contains: `port 1 has the function "` + id("b"), after: id("b")},
		"something else was loaded":    {kind: "2", text: id("e") + "\n", loader: true, contains: `port 1 has the function "` + id("e"), after: id("e")},
		"no type":                      {kind: "2", loader: true, noKind: true, want: fpga.ErrPreprogrammed, contains: "compat_id", after: id("b")},
		"the card cannot be read then": {kind: "2", text: "rubbish", loader: true, contains: "after the loader: ", after: "rubbish"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind := "2"
			if tt.noKind {
				kind = ""
			}
			tree, root := directory(t, drivertest.Tree(t, dflCard("0000:5f:00.0", 1, kind, "b")))
			config := fpga.Config{Host: "cn0"}
			if tt.loader {
				config.BitstreamLoader = self(t)
			}
			d := programmer(t)(fpga.NewIntel(config, tree))
			image := ordered(t, tt.kind, "d", orders{File: filepath.Join(root, afu), Text: tt.text})
			err := d.Program(t.Context(), path(t, "0000:5f:00.0"), "cn0_0000:5f:00.0", image)
			switch {
			case tt.want == nil && tt.contains == "" && err != nil:
				t.Error(err)
			case tt.want != nil && !errors.Is(err, tt.want), tt.contains != "" && (err == nil || !strings.Contains(err.Error(), tt.contains)):
				t.Errorf("error %v, want %v with %q", err, tt.want, tt.contains)
			case errors.Is(err, driver.ErrNotWritten) != (tt.want != nil):
				t.Errorf("error %v is ErrNotWritten: %t", err, errors.Is(err, driver.ErrNotWritten))
			}
			if got, err := tree.ReadFile(afu); err != nil || strings.TrimSpace(string(got)) != tt.after {
				t.Errorf("afu_id is %q, %v; want %q", got, err, tt.after)
			}
		})
	}
}

func TestTheLoaderGetsTheRegionAndWritesToTheLog(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	config := fpga.Config{Host: "cn0", BitstreamLoader: self(t), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	m := drivertest.Tree(t, dflCard("0000:5f:00.0", 1, "2", "b"))
	d := programmer(t)(fpga.NewIntel(config, m))
	at := path(t, "0000:5f:00.0")
	err := d.Program(t.Context(), at, "cn0_0000:5f:00.0", ordered(t, "2", "d", orders{Tells: true}))
	want := `exit status 1: {"address":"0000:5f:00.0","controlpath_id":{"cpid_info":{"bus":"5f","device":"00","domain":"0000","function":"0"},"cpid_type":"PCI"},` +
		`"deployable":"cn0_0000:5f:00.0","function_ids":["` + id("d") + `"],"host":"cn0","ports":[1],"region":0,"region_id":"` + id("2") + `","vendor":"intel"}`
	if err == nil || !strings.HasSuffix(err.Error(), want) || !strings.HasPrefix(err.Error(), "intel_fpga: program 0000:5f:00.0: bitstream loader: ") {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if err := d.Program(t.Context(), at, "", ordered(t, "2", "d", orders{Says: "three blocks skipped"})); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), `verb=program stderr="three blocks skipped"`) {
		t.Errorf("log: %s", log.String())
	}
	if got, err := m.ReadFile("class/fpga_region/region1/dfl-port.1/afu_id"); err != nil || string(got) != id("d")+"\n" {
		t.Errorf("afu_id is %q, %v", got, err)
	}
}

func TestALoaderJudgesImagesOfAnotherForm(t *testing.T) {
	t.Parallel()
	m := drivertest.Tree(t, intelCard(pf, 0, "1", "a", 0))
	d := programmer(t)(fpga.NewIntel(fpga.Config{Host: "cn0", BitstreamLoader: self(t)}, m))
	if err := d.Program(t.Context(), path(t, pf), "", []byte(`{"loader": {}}`)); err != nil {
		t.Error(err)
	}
	err := d.Program(t.Context(), path(t, pf), "", []byte(`{"loader": {"tells": true}}`))
	if err == nil || strings.Contains(err.Error(), "function_ids") || !strings.Contains(err.Error(), pf) {
		t.Errorf("error %v", err)
	}
}

// What the kernel does not show cannot be read again afterwards.
func TestACardThatAGuestHasIsNotProgrammed(t *testing.T) {
	t.Parallel()
	card := dflCard("0000:5f:00.0", 1, "2", "b")
	card.Driver, card.FPGA = "vfio-pci", nil
	d := programmer(t)(fpga.NewIntel(fpga.Config{Host: "cn0", BitstreamLoader: "/bin/true"}, dirTree{drivertest.Tree(t, card)}))
	if err := d.Program(t.Context(), path(t, "0000:5f:00.0"), "", ordered(t, "2", "d", orders{})); !errors.Is(err, fpga.ErrRegion) {
		t.Errorf("error %v, want %v", err, fpga.ErrRegion)
	}
}

func TestALoaderThatOthersCouldReplaceIsRefused(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "loader")
	if err := errors.Join(os.WriteFile(open, nil, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"loader", "/nonexistent/loader", t.TempDir(), open} {
		if _, err := fpga.NewXilinx(fpga.Config{Host: "cn0", BitstreamLoader: path}, sysfs.NewMemory()); !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), "bitstream_loader: ") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
