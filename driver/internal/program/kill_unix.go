//go:build unix

package program

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// killWhole makes a process that is killed take all that it has started along.
func killWhole(process *exec.Cmd) {
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithAgent(process.SysProcAttr)
	process.Cancel = func() error {
		err := syscall.Kill(-process.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
}
