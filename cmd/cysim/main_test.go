package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// asCommand makes the test binary behave as cysim.
const asCommand = "CYSIM_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestSignalsEndTheProcessWithStatus0(t *testing.T) {
	t.Parallel()
	hangup := []syscall.Signal{syscall.SIGHUP}
	if signal.Ignored(syscall.SIGHUP) { // nohup go test: the commands inherit it
		hangup = append(hangup, syscall.SIGTERM)
	}
	for _, tt := range []struct {
		name    string
		shell   string // runs before the command
		signals []syscall.Signal
	}{
		{"SIGTERM", "", []syscall.Signal{syscall.SIGTERM}},
		{"SIGINT", "", []syscall.Signal{syscall.SIGINT}},
		{"SIGHUP", "", hangup},
		{"SIGHUP with nohup", "trap '' HUP; ", []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command := exec.Command("sh", "-c", tt.shell+`exec "$0" placement`, os.Args[0])
			command.Env = append(os.Environ(), asCommand+"=1")
			var stderr lockedBuffer
			command.Stderr = &stderr
			stdout, err := command.StdoutPipe()
			must(t, err)
			must(t, command.Start())
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "export CYSIM_PID=") {
			}
			if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", command.Process.Pid)); err == nil {
				ignored := regexp.MustCompile(`(?m)^SigIgn:\s*[0-9a-f]*[13579bdf]$`).Match(status) // SIGHUP is the first
				if ignored != (tt.shell != "" || len(hangup) > 1) {
					t.Errorf("SIGHUP is ignored: %t", ignored)
				}
			}
			for _, signal := range tt.signals {
				if err := command.Process.Signal(signal); err != nil {
					t.Error(err)
				}
			}
			if err := command.Wait(); err != nil {
				t.Errorf("got %v, want status 0; %s", err, &stderr)
			}
		})
	}
}
