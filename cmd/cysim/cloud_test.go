//go:build clients || suites

package main

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gocyborg/gocyborg/simcloud"
)

// cloud is a cysim in a process of its own.
type cloud struct {
	// files is the environment by which clients find clouds.yaml; exports is the one without a file, with
	// the variables of an administrator.
	files, exports []string
}

// bootCloud builds cysim, starts its serve command and checks, when the test
// ends, that SIGTERM ends it with status 0.
func bootCloud(t *testing.T, flags ...string) cloud {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "cysim")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	clouds := filepath.Join(dir, "clouds.yaml")
	c := cloud{files: []string{"HOME=" + dir, "OS_CLIENT_CONFIG_FILE=" + clouds}}
	command := exec.Command(binary, append([]string{"serve", "--clouds-yaml", clouds}, flags...)...)
	var stderr lockedBuffer
	command.Stderr = &stderr
	stdout, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	lines := bufio.NewScanner(stdout)
	listens := false
	for !listens && lines.Scan() {
		assignment, ok := strings.CutPrefix(lines.Text(), "export ")
		if name, value, _ := strings.Cut(assignment, "="); name == "CYSIM_URL" {
			for _, v := range openStackVariables(value, "RegionOne", admin(), simcloud.Password) {
				c.exports = append(c.exports, v.name+"="+v.value)
			}
		}
		if ok && !strings.HasPrefix(assignment, "OS_CLIENT_CONFIG_FILE=") {
			c.exports = append(c.exports, assignment)
		}
		listens = strings.HasPrefix(assignment, "CYSIM_PID=")
	}
	t.Cleanup(func() {
		if listens {
			c.checkUnrecognized(t)
		}
		_ = command.Process.Signal(syscall.SIGTERM) // Wait fails if it had already ended
		if err := command.Wait(); err != nil || !listens {
			t.Errorf("cysim ended with %v, listened: %v\n%s", err, listens, &stderr)
		}
	})
	return c
}
