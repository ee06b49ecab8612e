package discover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver/sysfs"
)

const machinesDir = "testdata/machines"

// reconstruction is a machine rebuilt from listings that people have published.
type reconstruction struct {
	Description sysfs.Description `json:"description"`
	// Writes are what an operator wrote to files, with the kernel's effects; Files are the files
	// in the listings. They override what the kernel would make of the description.
	Writes map[string]string `json:"writes"`
	Files  map[string]string `json:"files"`
	// Empty are directories in which there is nothing.
	Empty []string `json:"empty"`
}

// machineTree returns the sysfs of a machine by its name in testdata/machines.
func machineTree(t *testing.T, name string) string {
	t.Helper()
	if !strings.HasPrefix(name, "reconstructed-") {
		return capturedTree(t, name)
	}
	data, err := os.ReadFile(filepath.Join(machinesDir, name+".json"))
	must(t, err)
	var r reconstruction
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	must(t, decoder.Decode(&r))
	tree, err := sysfs.Generate(r.Description)
	must(t, err)
	for path, text := range r.Writes {
		must(t, tree.WriteFile(path, []byte(text)))
	}
	for path, text := range r.Files {
		tree.SetFile(path, []byte(text))
	}
	dir := t.TempDir()
	must(t, tree.LayOut(dir))
	for _, path := range r.Empty {
		must(t, os.MkdirAll(filepath.Join(dir, path), 0o755))
	}
	return dir
}

// TestMachines compares every line that cysim discover prints of real machines with the files in
// testdata/machines, whose README.md names the sources and explains the lines. GOCYBORG_UPDATE=1 rewrites them.
func TestMachines(t *testing.T) {
	t.Parallel()
	goldens, err := filepath.Glob(machinesDir + "/*.golden")
	if err != nil || len(goldens) < 17 {
		t.Fatalf("%d machines, %v", len(goldens), err)
	}
	for _, golden := range goldens {
		name := strings.TrimSuffix(filepath.Base(golden), ".golden")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sys := machineTree(t, name)
			got := "$ cysim discover --sysfs " + name + "\n" + printed(t, sys)
			if conf := filepath.Join(machinesDir, name+".conf"); fileExists(conf) {
				got += fmt.Sprintf("\n$ cysim discover --sysfs %s --driver-config %s.conf\n%s", name, name, printed(t, sys, "--driver-config", conf))
			}
			got = strings.ReplaceAll(got, sys, name)
			if os.Getenv("GOCYBORG_UPDATE") != "" {
				must(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func fileExists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// printed is what cysim discover prints.
func printed(t *testing.T, sys string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if status := runDiscover(t, &stdout, &stderr, append([]string{"--sysfs", sys}, args...)...); status != 0 || stderr.Len() > 0 {
		t.Errorf("status %d, %s", status, stderr.String())
	}
	return stdout.String()
}
