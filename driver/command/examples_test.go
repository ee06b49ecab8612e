package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/driver/command"
)

// example is a copy of a program of examples/command, because the file may be group-writable in a checkout.
// Its tests are not parallel: a program that was just written is busy while another process starts.
func example(t *testing.T, name, interpreter string) *command.Driver {
	t.Helper()
	if _, err := exec.LookPath(interpreter); err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile("../../examples/command/" + name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := command.New(command.Config{Host: "compute1", Name: "acme", Program: path, Writes: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheExampleInShell(t *testing.T) {
	d := example(t, "acme.sh", "sh")
	_, noBus := os.Stat("/sys/bus/pci/devices")
	report, err := d.Discover(t.Context())
	if noBus != nil {
		if err == nil || !strings.Contains(err.Error(), "no PCI bus") {
			t.Errorf("without a bus: %v", err)
		}
		return
	}
	if err != nil || len(report.Devices)+len(report.Problems) > 0 { // no machine has the card
		t.Errorf("%+v, %v", report, err)
	}
}
