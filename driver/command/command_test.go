package command_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/command"
	"github.com/gocyborg/gocyborg/driver/drivertest"
)

const id1 = "11111111-1111-4111-8111-111111111111"

// TestMain is also the program: the driver calls the test's binary with a verb. The environment
// is empty, so the host name selects its behaviour.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && slices.Contains([]string{"discover", "program", "create_mdev", "remove_mdev"}, os.Args[1]) {
		syscall.Exit(program(os.Args[1])) // with the race detector os.Exit would wait a second
	}
	os.Exit(m.Run())
}

func program(verb string) int {
	var in map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	host, _ := in["host"].(string)
	if socket, found := strings.CutPrefix(host, "hangs "); found {
		return hang(socket)
	}
	if name, found := strings.CutPrefix(host, "file "); found {
		text, err := os.ReadFile(name)
		fmt.Printf("%s", text)
		return status(err)
	}
	switch host {
	case "list":
		fmt.Print(`[{"vendor": "1d55", "model": "NPU", "type": "AICHIP",
			"controlpath_id": {"cpid_type": "PCI", "cpid_info": "{\"domain\": \"0000\", \"bus\": \"3b\", \"device\": \"00\", \"function\": \"0\"}"},
			"deployable_list": [{"name": "list_0000:3b:00.0", "num_accelerators": 1, "driver_name": "theirs",
				"attribute_list": [{"key": "rc", "value": "CUSTOM_NPU"}, {"key": "trait0", "value": "CUSTOM_ACME"}],
				"attach_handle_list": [{"attach_type": "MDEV", "attach_info": {"asked_type": "acme-1", "domain": "0000", "bus": "3b", "device": "00", "function": "0"}}]}]},
			{"vendor": "1d55", "model": "NPU", "type": "TOASTER", "controlpath_id": {"cpid_type": "PCI", "cpid_info": {"domain": "0000", "bus": "3c", "device": "00", "function": "0"}}, "deployable_list": []}]`)
	case "rocky":
		fmt.Print(`{"rocky": {
			"0000:5e:00.0": {"type": "GPU", "vendor": "acme", "product": "Vision"},
			"0000:3b:00.0": {"type": "FPGA", "vendor": "intel", "product": "PAC Arria10",
				"regions": [{"region-type-uuid": "a1aaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa", "bitstream-id": "` + id1 + `", "function-uuid": "f1aaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"}]}}}`)
	case "cn0":
		fmt.Print(entry(`, "regions": [{"devices": "0000:3b:00.1", "region-type-uuid": "a1aaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa", "function-uuid": "f1aaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"},
			{"devices": "0000:3b:00.2", "region-type-uuid": "a2aaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"}]`))
	case "blind":
		fmt.Fprintln(os.Stderr, "the bus\nis busy\x1b[31m")
		return 3
	case "fails":
		fmt.Fprintln(os.Stderr, "no such device")
		return 1
	case "floods":
		for {
			if _, err := os.Stdout.Write(make([]byte, 1<<20)); err != nil {
				return 1
			}
		}
	case "says":
		image := ""
		if name, ok := in["image_file"].(string); ok {
			data, err := os.ReadFile(name)
			image = fmt.Sprintf(" image %q %v", data, err)
		}
		fmt.Fprintf(os.Stderr, "%s %v environment %v%s", verb, in, environment(), image)
		return 1
	default:
		fmt.Print(strings.TrimPrefix(host, "prints "))
	}
	return 0
}

func status(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

// hang waits for a child that holds the output open. It prints the id of the child.
func hang(socket string) int {
	to, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	held, err := to.(*net.UnixConn).File()
	child := exec.Command("/bin/sleep", "60")
	child.Stdout, child.ExtraFiles = os.Stdout, []*os.File{held}
	if err = errors.Join(err, child.Start()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(to, "started")
	_ = child.Wait()
	return 0
}

func environment() (names []string) {
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	return names
}

func newDriver(t testing.TB, host string, change ...func(*command.Config)) *command.Driver {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config := command.Config{Host: host, Program: path}
	for _, c := range change {
		c(&config)
	}
	d, err := command.New(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// printing is the driver of a program that prints a text, and its host, whose name is short.
func printing(t *testing.T, text string) (d *command.Driver, host string) {
	t.Helper()
	file, err := os.CreateTemp("", "")
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(file.Name()) })
	host = "file " + file.Name()
	return newDriver(t, host), host
}

func writes(c *command.Config) { c.Writes = true }

func TestTheDriverPassesTheTestForDrivers(t *testing.T) {
	t.Parallel()
	drivertest.Run(t, drivertest.Case{New: func(driver.Tree) (driver.Driver, error) { return newDriver(t, "list", writes), nil }})
}

func TestDevicesInTheFormOfUpstream(t *testing.T) {
	t.Parallel()
	report, err := newDriver(t, "list").Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address := driver.Info{"domain": "0000", "bus": "3b", "device": "00", "function": "0"}
	want := []driver.Device{{
		Vendor: "1d55", Model: "NPU", Type: "AICHIP", ControlPath: driver.ControlPath{Type: "PCI", Info: address},
		Deployables: []driver.Deployable{{
			Name: "list_0000:3b:00.0", NumAccelerators: 1, DriverName: "command", Class: "CUSTOM_NPU", Traits: []string{"CUSTOM_ACME"},
			AttachHandles: []driver.AttachHandle{{Type: "MDEV", Info: driver.Info{"asked_type": "acme-1", "domain": "0000", "bus": "3b", "device": "00", "function": "0"}}},
		}},
	}}
	if diff := cmp.Diff(want, report.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if len(report.Problems) != 1 || report.Problems[0].Address != "0000:3c:00.0" || !errors.Is(report.Problems[0], driver.ErrInvalidDevice) {
		t.Errorf("problems: %v", report.Problems)
	}
}

func TestTheDictionaryOfRocky(t *testing.T) {
	t.Parallel()
	report, err := newDriver(t, "rocky").Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	handle := func(bus string) []driver.AttachHandle {
		return []driver.AttachHandle{{Type: "PCI", Info: driver.Info{"domain": "0000", "bus": bus, "device": "00", "function": "0"}}}
	}
	want := []driver.Deployable{
		{Name: "rocky_0000:3b:00.0", NumAccelerators: 1, DriverName: "command", Class: "CUSTOM_ACCELERATOR_FPGA",
			Traits: []string{"OWNER_CYBORG", "CUSTOM_FPGA_INTEL_PAC_ARRIA10", "CUSTOM_FPGA_INTEL_REGION_A1AAAAAA_AAAA_4AAA_8AAA_AAAAAAAAAAAA",
				"CUSTOM_FPGA_INTEL_FUNCTION_F1AAAAAA_AAAA_4AAA_8AAA_AAAAAAAAAAAA"},
			Attributes: []driver.Attribute{{Key: "bitstream_id", Value: id1}}, AttachHandles: handle("3b")},
		{Name: "rocky_0000:5e:00.0", NumAccelerators: 1, DriverName: "command", Class: "CUSTOM_ACCELERATOR_GPU",
			Traits: []string{"OWNER_CYBORG", "CUSTOM_GPU_ACME_VISION"}, AttachHandles: handle("5e")},
	}
	var got []driver.Deployable
	for _, d := range report.Devices {
		got = append(got, d.Deployables...)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(report.Problems) > 0 {
		t.Errorf("deployables (-want +got):\n%s\nproblems %v", diff, report.Problems)
	}
}

// entry is a device of the dictionary at 0000:3b:00.0.
func entry(fields string) string {
	return `{"rocky": {"0000:3b:00.0": {"type": "FPGA", "vendor": "intel", "product": "PAC"` + fields + `}}}`
}

// A region that names its PCI function, as drivers of Queens do, is a deployable; a device whose regions share one is one unit.
func TestTheRegionsOfTheDictionary(t *testing.T) {
	t.Parallel()
	const region, function = "a1aaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa", "f1aaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
	const regionTrait, functionTrait = "CUSTOM_FPGA_INTEL_REGION_A1AAAAAA_AAAA_4AAA_8AAA_AAAAAAAAAAAA", "CUSTOM_FPGA_INTEL_FUNCTION_F1AAAAAA_AAAA_4AAA_8AAA_AAAAAAAAAAAA"
	part := func(name, function string, attributes []driver.Attribute, traits ...string) driver.Deployable {
		return driver.Deployable{
			Name: name, NumAccelerators: 1, DriverName: "command", Class: "CUSTOM_ACCELERATOR_FPGA",
			Traits: append([]string{"OWNER_CYBORG", "CUSTOM_FPGA_INTEL_PAC"}, traits...), Attributes: attributes,
			AttachHandles: []driver.AttachHandle{{Type: "PCI", Info: driver.Info{"domain": "0000", "bus": "3b", "device": "00", "function": function}}},
		}
	}
	for _, tt := range []struct {
		name, fields string
		want         []driver.Deployable
	}{
		{"one with a function", `, "regions": [{"devices": "0000:3b:00.1", "function-uuid": "` + function + `"}]`,
			[]driver.Deployable{part("_0000:3b:00.0", "1", nil, functionTrait)}},
		{"two with functions", `, "regions": [{"devices": "0000:3b:00:1", "region-type-uuid": "` + region + `", "bitstream-id": "` + id1 + `"},
			{"devices": "0000:3b:00.2", "function-uuid": "` + function + `"}]`,
			[]driver.Deployable{
				part("_0000:3b:00.0_region0", "1", []driver.Attribute{{Key: "bitstream_id", Value: id1}}, regionTrait),
				part("_0000:3b:00.0_region1", "2", nil, functionTrait),
			}},
		{"two of the whole card", `, "regions": [{"region-type-uuid": "` + region + `", "bitstream-id": "` + id1 + `"}, {"function-uuid": "` + function + `"}]`,
			[]driver.Deployable{part("_0000:3b:00.0", "0", []driver.Attribute{{Key: "bitstream_id_region0", Value: id1}}, regionTrait, functionTrait)}},
	} {
		d, host := printing(t, entry(tt.fields))
		report, err := d.Discover(t.Context())
		if err != nil || len(report.Devices) != 1 || len(report.Warnings) > 0 {
			t.Errorf("%s: %+v, %v", tt.name, report, err)
			continue
		}
		got := report.Devices[0].Deployables
		for i := range got {
			got[i].Name = strings.TrimPrefix(got[i].Name, host)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// The specification adds its keys to those that drivers have.
func TestOtherKeysOfTheDictionaryAreIgnored(t *testing.T) {
	t.Parallel()
	d, _ := printing(t, entry(`, "pr_num": 1, "path": "/sys/class/fpga/intel-fpga-dev.0", "regions": [{"path": "x", "devices": "0000:3b:00.1"}]`))
	report, err := d.Discover(t.Context())
	if err != nil || len(report.Devices) != 1 || len(report.Problems) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	want := []driver.Notice{{Address: "0000:3b:00.0", Driver: "command", Reason: "keys that are not read: path, pr_num, regions.path"}}
	if diff := cmp.Diff(want, report.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestABadEntryLosesOnlyItself(t *testing.T) {
	t.Parallel()
	const good = `"0000:5e:00.0": {"type": "GPU", "vendor": "acme", "product": "Vision"}`
	const goodDevice = `{"vendor": "1d55", "model": "NPU", "type": "AICHIP", "controlpath_id": {"cpid_type": "PCI", "cpid_info": {"domain": "0000", "bus": "5e", "device": "00", "function": "0"}},
		"deployable_list": [{"name": "x", "num_accelerators": 1, "driver_name": "d", "class": "CUSTOM_NPU", "attach_handle_list": [{"attach_type": "PCI", "attach_info": {"domain": "0000", "bus": "5e", "device": "00", "function": "0"}}]}]}`
	fpga := func(fields string) string {
		return `{"rocky": {` + good + `, "0000:3b:00.0": {"type": "FPGA", "vendor": "a", "product": "b", ` + fields + `}}}`
	}
	for text, want := range map[string]string{
		`{"rocky": {` + good + `, "x": {}}}`:                                                          `driver: rocky: "x": `,
		`{"rocky": {` + good + `, "0000:3b:00.0": null}}`:                                             `driver: device 0000:3b:00.0: rocky: "0000:3b:00.0": null is not a device`,
		`{"rocky": {` + good + `, "0000:3b:00.0": {"type": 1}}}`:                                      `driver: device 0000:3b:00.0: rocky: "0000:3b:00.0": json: `,
		`{"rocky": {` + good + `, "0000:3b:00.0": {"type": "GPU", "vendor": "a"}}}`:                   "empty part",
		`{"rocky": {` + good + `, "0000:3b:00.0": {"type": "GPU", "vendor": "a/b", "product": "c"}}}`: `character '/' is not allowed`,
		fpga(`"regions": [{"function-uuid": "f"}]`):                                                   `region 0: "f" is not a UUID`,
		fpga(`"regions": [{"devices": "0000:3b:00.1"}, {"devices": "0000:3b:00.1"}]`):                 `region 1: function 0000:3b:00.1 also leads to another region`,
		fpga(`"regions": [{"devices": "0000:3b:00.1"}, {}]`):                                          `1 of 2 regions have no PCI function (devices)`,
		fpga(`"regions": [{"devices": "x"}]`):                                                         `region 0: devices: `,
		`[` + goodDevice + `, null]`:                                                                  "device 1: no controlpath_id",
		`[{"vendr": ""}, ` + goodDevice + `]`:                                                         "device 0: ",
		`[{"vendr": "", "controlpath_id": {"cpid_info": {"domain": "0000", "bus": "3b", "device": "00", "function": "0"}}}, ` + goodDevice + `]`: `driver: device 0000:3b:00.0: device 0: json: unknown field "vendr"`,
	} {
		d, _ := printing(t, text)
		report, err := d.Discover(t.Context())
		if err != nil || len(report.Devices) != 1 || report.Devices[0].ControlPath.Address().String() != "0000:5e:00.0" {
			t.Errorf("%s: %+v, %v", text, report.Devices, err)
		}
		if len(report.Problems) != 1 || !strings.Contains(report.Problems[0].Error(), want) {
			t.Errorf("%s: problems %v, want %s", text, report.Problems, want)
		}
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                "EOF",
		"x":               "invalid character",
		"{}":              "neither a list of devices nor an object with rocky",
		"null":            "neither a list of devices nor an object with rocky", // jq prints it for a key that is not there
		`{"rocky": null}`: "rocky: null is not a dictionary",
		`{"rocky": []}`:   "rocky: ",
		`[{}] x`:          "something follows the JSON value",
	} {
		report, err := newDriver(t, "prints "+text).Discover(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "command: discover: answer of /") || len(report.Devices) > 0 {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestAProgramThatCannotLookOrFails(t *testing.T) {
	t.Parallel()
	_, err := newDriver(t, "blind").Discover(t.Context())
	if !errors.Is(err, command.ErrNotLooked) || !strings.HasSuffix(err.Error(), "the bus is busy[31m") {
		t.Errorf("status 3: %v", err)
	}
	_, err = newDriver(t, "fails").Discover(t.Context())
	if err == nil || errors.Is(err, command.ErrNotLooked) || !strings.HasSuffix(err.Error(), "exit status 1: no such device") {
		t.Errorf("status 1: %v", err)
	}
	_, err = newDriver(t, "floods").Discover(t.Context())
	if err == nil || !strings.HasSuffix(err.Error(), "wrote more than 4 MiB") {
		t.Errorf("too much output: %v", err)
	}
}

// A program that is killed takes along what it has started.
func TestAProgramThatHangs(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("/bin/sleep"); err != nil {
		t.Skip("no /bin/sleep")
	}
	dir, err := os.MkdirTemp("", "") // short enough for the name of a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		from, err := listener.Accept()
		if err != nil {
			ended <- err
			return
		}
		if _, err := from.Read(make([]byte, len("started"))); err != nil {
			ended <- err
			return
		}
		cancel()
		from.SetReadDeadline(time.Now().Add(30 * time.Second)) // half as long as the child sleeps
		_, err = io.Copy(io.Discard, from)                     // until the other end is closed
		ended <- err
	}()
	if _, err := newDriver(t, "hangs "+listener.Addr().String()).Discover(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("its child still runs: %v", err)
	}
}

func TestWhatTheProgramSaysIsLogged(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	_, err := newDriver(t, "fails", func(c *command.Config) { c.Logger = log }).Discover(t.Context())
	if err == nil || !strings.HasSuffix(text.String(), "driver=command verb=discover stderr=\"no such device\"\n") {
		t.Errorf("%v, log %s", err, text.String())
	}
}

func TestInputOfTheProgram(t *testing.T) {
	t.Parallel()
	d := newDriver(t, "says", writes)
	m := driver.Mdev{UUID: id1, Parent: "0000:3b:00.0", Type: "acme-1"}
	told := "map[host:says parent:0000:3b:00.0 type:acme-1 uuid:" + id1 + "] environment [PATH]"
	if err := d.CreateMdev(t.Context(), m); err == nil || !strings.HasSuffix(err.Error(), "create_mdev "+told) {
		t.Errorf("CreateMdev: %v", err)
	}
	if err := d.RemoveMdev(t.Context(), m); err == nil || !strings.HasSuffix(err.Error(), "remove_mdev "+told) {
		t.Errorf("RemoveMdev: %v", err)
	}
	path := driver.PCIAddress{Bus: 0x3b}.ControlPath()
	err := d.Program(t.Context(), path, "says_region0", []byte("bits"))
	if err == nil || errors.Is(err, driver.ErrNotWritten) || !strings.Contains(err.Error(), "deployable:says_region0") || !strings.HasSuffix(err.Error(), `image "bits" <nil>`) {
		t.Errorf("Program: %v", err)
	}
	if name, _, found := strings.Cut(after(fmt.Sprint(err), "image_file:"), "]"); found {
		if _, err := os.Stat(strings.Fields(name)[0]); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the image is still there: %v", err)
		}
	}
	if err := d.CreateMdev(t.Context(), driver.Mdev{UUID: "../x"}); !errors.Is(err, driver.ErrHandle) {
		t.Errorf("a bad name: %v", err)
	}
}

func after(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	return rest
}

func TestWithoutWritesOnlyDiscoverIsCalled(t *testing.T) {
	t.Parallel()
	d := newDriver(t, "says")
	err := d.CreateMdev(t.Context(), driver.Mdev{UUID: id1, Parent: "p", Type: "t"})
	if !errors.Is(err, driver.ErrConfig) || strings.Contains(err.Error(), "environment") {
		t.Errorf("CreateMdev: %v", err)
	}
	err = d.Program(t.Context(), driver.PCIAddress{Bus: 0x3b}.ControlPath(), "", []byte("bits"))
	if !errors.Is(err, driver.ErrConfig) || !errors.Is(err, driver.ErrNotWritten) || strings.Contains(err.Error(), "environment") {
		t.Errorf("Program: %v", err)
	}
}

func TestAProgramThatOthersCanWriteIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for want, path := range map[string]string{
		"is not an absolute path":           "program",
		"can be written by group or others": file("others", 0o757),
		"by group or others (mode -rwxrwx":  file("group", 0o770),
		"is not executable":                 file("data", 0o644),
		"is not a file":                     dir,
		"no such file":                      filepath.Join(dir, "none"),
	} {
		_, err := command.New(command.Config{Host: "h", Program: path}, nil)
		if !errors.Is(err, driver.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
	ours := file("ours", 0o700)
	d, err := command.New(command.Config{Host: "h", Program: ours}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(ours, 0o722); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Discover(t.Context()); err == nil || !strings.Contains(err.Error(), "can be written") {
		t.Errorf("changed since: %v", err)
	}
}
