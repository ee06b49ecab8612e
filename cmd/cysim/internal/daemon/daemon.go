package daemon

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// Flag selects the daemon. It is removed from the arguments of the process.
const Flag = "--daemon"

// Variable selects it, too. The process does not get it.
const Variable = "CYSIM_DAEMON"

// lastVariable is the variable that a server prints last when it is ready.
const lastVariable = "export CYSIM_PID="

// Start starts this program with the arguments, waits until it has printed its variables, prints
// them, and returns. Its log goes to the file, or to a new temporary one whose name is printed as
// CYSIM_LOG. If the process ends before that, the error is its error with its exit status. If the variables cannot be
// printed, the process is ended.
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
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		before = 0 // not a regular file
	}
	process := exec.Command(executable, withoutFlag(args)...)
	process.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, Variable+"=") })
	process.Stdin, process.Stderr, process.SysProcAttr = os.Stdin, log, detached() // a flag may name /dev/stdin
	out, err := process.StdoutPipe()
	if err == nil {
		err = process.Start()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", Flag, err)
	}
	p.Doing("waiting for the server, its log is %s", log.Name())
	interrupted := context.AfterFunc(ctx, func() { _ = process.Process.Kill() }) // it may have ended
	waiting, arrived := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() { reportWait(waiting, p.Stderr, log.Name(), before) })
	variables, ready := readVariables(out)
	arrived()
	reporting.Wait()
	if !interrupted() || !ready {
		return failure(process.Wait(), log.Name())
	}
	signal.Ignore(syscall.SIGPIPE) // it would end this process alone
	if _, err = fmt.Fprintf(p.Stdout, "export CYSIM_LOG=%s\n%s", command.Quote(log.Name()), variables); err != nil {
		end(process)
		return fmt.Errorf("print the environment: %w; the server has ended, its log is %s", err, log.Name())
	}
	return process.Process.Release()
}

// patience is how long a server may take to become ready before its daemon reports what it waits for.
const patience = 2 * time.Second

// reportWait writes why a server is not ready yet, until the context ends: the newest warning in its log, each once.
func reportWait(ctx context.Context, w io.Writer, log string, from int64) {
	clock, reported := simhttp.Wall{}, ""
	for clock.Wait(ctx, patience) == nil {
		if reason := lastWarning(log, from); reason != "" && reason != reported {
			fmt.Fprintf(w, "cysim: %s\n", reason)
			reported = reason
		}
	}
}

// warning is a line of a log that names a difficulty.
var warning = regexp.MustCompile(`(?m)^time=\S+ level=(?:WARN|ERROR) (.*)$`)

// maxLook is how much of the end of a log is searched for warnings, in bytes.
const maxLook = 64 << 10

// lastWarning is the last warning in a log, after its first bytes, or an empty text.
func lastWarning(log string, from int64) string {
	info, err := os.Stat(log)
	if err != nil || !info.Mode().IsRegular() { // a pipe would be emptied
		return ""
	}
	file, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer file.Close()
	from = max(from, info.Size()-maxLook)
	text, err := io.ReadAll(io.NewSectionReader(file, from, info.Size()-from))
	found := warning.FindAllStringSubmatch(string(text), -1)
	if err != nil || found == nil {
		return ""
	}
	return "not ready yet: " + found[len(found)-1][1]
}

// endTimeout limits the time that a server has to end after a signal, which it needs for requests.
const endTimeout = 10 * time.Second

// end ends a server that was not announced.
func end(process *exec.Cmd) {
	if err := process.Process.Signal(syscall.SIGTERM); err != nil {
		_ = process.Process.Kill() // where no signals are, or it has ended
	}
	late := time.AfterFunc(endTimeout, func() { _ = process.Process.Kill() })
	defer late.Stop()
	_ = process.Wait() // its status says nothing more
}

// withoutFlag returns the arguments of the background process, without the flag: it would start
// another one, endlessly.
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

// failure is the error at the end of the log, or its last line.
func failure(err error, log string) error {
	status := command.StatusFailed
	if ended := new(exec.ExitError); errors.As(err, &ended) {
		status = cmp.Or(max(0, ended.ExitCode()), command.StatusFailed)
	}
	data, _ := command.ReadFile(context.Background(), log, 1<<20) // else it has no lines
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	last := len(lines) - 1
	for last > 0 && strings.HasPrefix(lines[last], "  ") {
		last--
	}
	text := cmp.Or(strings.TrimPrefix(lines[last], "cysim: "), "the server ended before it was ready; its log is "+log)
	var problems []error
	for _, line := range lines[last+1:] {
		problems = append(problems, errors.New(strings.TrimSpace(line)))
	}
	if problems != nil {
		return command.WithStatus(fmt.Errorf("%s %w", text, errors.Join(problems...)), status)
	}
	return command.WithStatus(errors.New(text), status)
}
