package main

import (
	"bufio"
	"os"
	"os/exec"
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
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			command := exec.Command(os.Args[0], "placement")
			command.Env = append(os.Environ(), asCommand+"=1")
			var stderr lockedBuffer
			command.Stderr = &stderr
			stdout, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "export CYSIM_PID=") {
			}
			if err := command.Process.Signal(signal); err != nil {
				t.Error(err)
			}
			if err := command.Wait(); err != nil {
				t.Errorf("got %v, want status 0; %s", err, &stderr)
			}
		})
	}
}
