package modelfile

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// What serve refuses because of the model, check refuses, too.
func TestCheckRefusesWhatServeRefuses(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]string{
		"inventory":         `{"hosts":[{"name":"cn0","vcpus":2147483648}]}`,
		"virtual functions": `{"hosts":[{"name":"cn0","sysfs":{"devices":[{"address":"0000:3b:00.0","vendor":"10de","product":"20b0","class":"0302","driver":"nvidia","iommu_group":20,"vfs":{"total":1000,"enabled":1}}]}}]}`,
		"image name":        `{"images":[{"id":"2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001","name":"` + strings.Repeat("x", 256) + `"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "model.json")
			must(t, os.WriteFile(file, []byte(model), 0o600))
			var out bytes.Buffer
			err := (&CheckCommand{File: file}).Run(t.Context(), &command.Process{Stdout: &out, Stderr: &out, Log: slog.New(slog.DiscardHandler)})
			if err == nil || !strings.Contains(err.Error(), file) || out.Len() > 0 {
				t.Errorf("error %v, output %q", err, out.String())
			}
		})
	}
}
