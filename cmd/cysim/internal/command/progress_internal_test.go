package command

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestASilentCommandSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		run  func(*Process)
		want string
	}{
		{"fast", func(*Process) { time.Sleep(1900 * time.Millisecond) }, ""},
		{"without a step", func(*Process) { time.Sleep(3 * time.Second) }, "cysim: serve: working, after 2s\n"},
		{"with steps", func(p *Process) {
			p.Doing("reading %s", "model.json")
			time.Sleep(3 * time.Second)
			p.Doing("building a cloud")
			time.Sleep(15 * time.Second)
		}, "cysim: serve: reading model.json, after 2s\n" +
			"cysim: serve: building a cloud, after 4s\n" +
			"cysim: serve: building a cloud, after 8s\n" +
			"cysim: serve: building a cloud, after 16s\n"},
		{"ready", func(p *Process) {
			time.Sleep(3 * time.Second)
			io.WriteString(p.Stdout, "export CYSIM_PID=1\n")
			time.Sleep(time.Hour)
		}, "cysim: serve: working, after 2s\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var stderr bytes.Buffer
				p := &Process{progress: watch(&stderr, "serve")}
				p.Stdout = p.progress.before(io.Discard)
				tt.run(p)
				p.progress.end()
				if diff := cmp.Diff(tt.want, stderr.String()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestWithoutProgressAStepIsNothing(t *testing.T) {
	t.Parallel()
	new(Process).Doing("reading")
}
