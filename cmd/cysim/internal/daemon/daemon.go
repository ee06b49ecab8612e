package daemon

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// Flag selects the daemon. It is left out of the arguments of the process.
const Flag = "--daemon"

// lastVariable is the variable that a server prints last when it is ready.
const lastVariable = "export CYSIM_PID="

// Start starts this program with the arguments, waits until it has printed its variables, prints
// them, and returns. Its log goes to the file, or to a new temporary one whose name is printed as
// CYSIM_LOG. If the process ends before that, the error is its error with its exit status.
func Start(ctx context.Context, p *command.Process, args []string, logName string) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("%s: %w", Flag, err)
	}
	log, err := openLog(logName)
	if err != nil {
		return command.BadInput(fmt.Errorf("--log: %w", err))
	}
	defer log.Close()
	process := exec.Command(executable, withoutFlag(args)...)
	process.Stdin, process.Stderr, process.SysProcAttr = os.Stdin, log, detached() // a flag may name /dev/stdin
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", Flag, err)
	}
	interrupted := context.AfterFunc(ctx, func() { _ = process.Process.Kill() }) // it may have ended
	variables, ready := readVariables(out)
	if !interrupted() || !ready {
		return failure(process.Wait(), log.Name())
	}
	_, err = fmt.Fprintf(p.Stdout, "export CYSIM_LOG=%s\n%s", command.Quote(log.Name()), variables)
	return errors.Join(err, process.Process.Release())
}

// withoutFlag are the arguments of the process, which is no daemon: it would start one again, without end.
func withoutFlag(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == Flag || strings.HasPrefix(arg, Flag+"=") })
}

func openLog(name string) (*os.File, error) {
	if name == "" {
		return os.CreateTemp("", "cysim-*.log")
	}
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// readVariables reads until a server is ready, or its output ends.
func readVariables(out io.Reader) (text string, ready bool) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		text += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), lastVariable) {
			return text, true
		}
	}
	return text, false
}

// failure is the last line of the log.
func failure(err error, log string) error {
	status := command.StatusFailed
	if ended := new(exec.ExitError); errors.As(err, &ended) {
		status = cmp.Or(max(0, ended.ExitCode()), command.StatusFailed)
	}
	data, _ := command.ReadFile(context.Background(), log, 1<<20) // else it has no lines
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	last := strings.TrimPrefix(string(lines[len(lines)-1]), "cysim: ")
	return command.WithStatus(errors.New(cmp.Or(last, "the server ended before it was ready; its log is "+log)), status)
}
