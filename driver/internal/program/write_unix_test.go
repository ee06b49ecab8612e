//go:build unix

package program_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/program"
)

// A program that has not started has written nothing; what one has written that has started is not known.
func TestWriteReportsWhetherTheProgramHasStarted(t *testing.T) {
	tooLate, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		text    string
		mode    os.FileMode
		ctx     context.Context //nolint:containedctx // one for each row
		tmp     string          // where the image is written
		args    any
		started bool
	}{
		"not executable":            {text: "#!/bin/sh\n", mode: 0o600},
		"others can write it":       {text: "#!/bin/sh\n", mode: 0o722},
		"gone":                      {},
		"a missing interpreter":     {text: "#!/nonexistent/sh\n", mode: 0o700},
		"no format of the kernel":   {text: "\x00", mode: 0o700},
		"too late":                  {text: "#!/bin/sh\n", mode: 0o700, ctx: tooLate},
		"no room for the image":     {text: "#!/bin/sh\n", mode: 0o700, tmp: "/nonexistent"},
		"arguments that no JSON is": {text: "#!/bin/sh\n", mode: 0o700, args: func() {}},
		"it fails":                  {text: "#!/bin/sh\nexit 1\n", mode: 0o700, started: true},
		"it floods":                 {text: "#!/bin/sh\nexec cat /dev/zero\n", mode: 0o700, started: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "loader")
			if tt.mode != 0 {
				if err := errors.Join(os.WriteFile(path, []byte(tt.text), 0o600), os.Chmod(path, tt.mode)); err != nil {
					t.Fatal(err)
				}
			}
			if tt.tmp != "" {
				t.Setenv("TMPDIR", tt.tmp)
			}
			ctx := t.Context()
			if tt.ctx != nil {
				ctx = tt.ctx
			}
			err := program.Program{Path: path}.Write(ctx, []byte("bits"), func(string) any { return tt.args })
			if err == nil || errors.Is(err, driver.ErrNotWritten) == tt.started {
				t.Errorf("error %v is ErrNotWritten: %t", err, errors.Is(err, driver.ErrNotWritten))
			}
		})
	}
}
