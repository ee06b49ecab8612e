package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	maxAnswer     = 4 << 20     // bytes of standard output
	maxText       = 4 << 10     // bytes of standard error that are kept
	afterKillWait = time.Second // for output that a grandchild holds open
	writeLimit    = 600 * time.Second
)

// Program is a program of an operator.
type Program struct {
	// Path is absolute.
	Path string
	// Driver is the calling driver, for the log.
	Driver string
	// Logger gets what it writes to its standard error; nil discards it.
	Logger *slog.Logger
}

// Check refuses a file that others than its owner could replace the content of: the agent runs it with
// its own rights.
func Check(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q is not an absolute path", path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable", path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by group or others (mode %v)", path, info.Mode().Perm())
	}
	return nil
}

// Write calls the program with the verb program. The image is a file while it runs, whose name the
// arguments are made of. The error of a program that has not started matches driver.ErrNotWritten.
func (p Program) Write(ctx context.Context, image []byte, arguments func(file string) any) (err error) {
	started := false
	name, err := writeImage(image)
	if err == nil {
		defer func() { err = errors.Join(err, os.Remove(name)) }()
		_, started, err = p.run(ctx, "program", writeLimit, arguments(name))
	}
	if err != nil && !started {
		return fmt.Errorf("%w: %w", driver.ErrNotWritten, err)
	}
	return err
}

// writeImage returns the name of a file that only the agent's user can read.
func writeImage(image []byte) (name string, err error) {
	f, err := os.CreateTemp("", "image-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(image)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// Call calls the program with a verb and returns what it wrote to standard output. Errors name the
// program, and end with what it wrote to standard error; a status is an exec.ExitError.
func (p Program) Call(ctx context.Context, verb string, limit time.Duration, arguments any) ([]byte, error) {
	answer, _, err := p.run(ctx, verb, limit, arguments)
	return answer, err
}

// run is Call, and reports whether the program has started.
func (p Program) run(ctx context.Context, verb string, limit time.Duration, arguments any) (stdout []byte, started bool, err error) {
	if err := Check(p.Path); err != nil { // it may have been replaced
		return nil, false, err
	}
	input, err := json.Marshal(arguments)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ended within %v", limit))
	defer cancel()
	answer, text := &limitedBuffer{limit: maxAnswer, stop: cancel}, &limitedBuffer{limit: maxText}
	process := exec.CommandContext(ctx, p.Path, verb)
	process.Env = []string{"PATH=" + os.Getenv("PATH")}
	process.Stdin, process.Stdout, process.Stderr = bytes.NewReader(input), answer, text
	process.WaitDelay = afterKillWait
	killWhole(process)
	runtime.LockOSThread() // the process ends with its thread
	defer runtime.UnlockOSThread()
	err = process.Run()
	p.log(ctx, verb, text)
	started = process.Process != nil
	switch {
	case answer.full:
		return nil, started, fmt.Errorf("%s wrote more than %d MiB", p.Path, maxAnswer>>20)
	case ctx.Err() != nil:
		return nil, started, fmt.Errorf("%s: %w", p.Path, context.Cause(ctx))
	case err != nil:
		return nil, started, p.failure(err, text)
	}
	return answer.kept, started, nil
}

// failure is the error of a program that ended with a status, or could not be started.
func (p Program) failure(err error, text *limitedBuffer) error {
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return err
	}
	cause := fmt.Errorf("%s: %w", p.Path, err)
	if said := text.line(); said != "" {
		cause = fmt.Errorf("%w: %s", cause, said)
	}
	return cause
}

func (p Program) log(ctx context.Context, verb string, text *limitedBuffer) {
	if said := text.line(); said != "" && p.Logger != nil {
		p.Logger.LogAttrs(ctx, slog.LevelWarn, "driver program", slog.String("driver", p.Driver), slog.String("verb", verb), slog.String("stderr", said))
	}
}

// limitedBuffer keeps so many bytes of what is written to it, and calls stop at the first one more.
type limitedBuffer struct {
	kept  []byte
	limit int
	stop  func()
	full  bool
}

// Write implements io.Writer.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	n := min(len(p), b.limit-len(b.kept))
	b.kept = append(b.kept, p[:n]...)
	if n < len(p) && !b.full {
		b.full = true
		if b.stop != nil {
			b.stop()
		}
	}
	return len(p), nil
}

// line is the text in one line, without what does not print.
func (b *limitedBuffer) line() string {
	fields := strings.Fields(strings.ToValidUTF8(string(b.kept), "?"))
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.Join(fields, " "))
}
