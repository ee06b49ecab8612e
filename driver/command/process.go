package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/driver"
)

const (
	maxAnswer     = 4 << 20 // bytes of standard output
	maxText       = 4 << 10 // bytes of standard error that are kept
	statusNoLook  = 3
	discoverVerb  = "discover"
	afterKillWait = time.Second // for output that a grandchild holds open
)

// call runs the program with a verb and returns what it wrote.
func (d *Driver) call(ctx context.Context, verb string, limit time.Duration, arguments any) ([]byte, error) {
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("%s: %s: %w", d.Name(), verb, err) }
	if verb != discoverVerb && !d.config.Writes {
		return fail(fmt.Errorf("%w: the driver may not write", driver.ErrConfig))
	}
	if err := checkProgram(d.config.Program); err != nil { // it may have been replaced
		return fail(err)
	}
	input, err := json.Marshal(arguments)
	if err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ended within %v", limit))
	defer cancel()
	answer, text := &limitedBuffer{limit: maxAnswer, stop: cancel}, &limitedBuffer{limit: maxText}
	process := exec.CommandContext(ctx, d.config.Program, verb)
	process.Env = []string{"PATH=" + os.Getenv("PATH")}
	process.Stdin, process.Stdout, process.Stderr = bytes.NewReader(input), answer, text
	process.WaitDelay = afterKillWait
	killWhole(process)
	err = process.Run()
	d.log(ctx, verb, text)
	switch {
	case answer.full:
		return fail(fmt.Errorf("%s wrote more than %d MiB", d.config.Program, maxAnswer>>20))
	case ctx.Err() != nil:
		return fail(fmt.Errorf("%s: %w", d.config.Program, context.Cause(ctx)))
	case err != nil:
		return fail(d.failure(err, text))
	}
	return answer.kept, nil
}

// failure is the error of a program that ended with a status, or could not be started.
func (d *Driver) failure(err error, text *limitedBuffer) error {
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		return err
	}
	cause := fmt.Errorf("%s: %w", d.config.Program, err)
	if ended.ExitCode() == statusNoLook {
		cause = fmt.Errorf("%w: %w", ErrNotLooked, cause)
	}
	if said := text.line(); said != "" {
		cause = fmt.Errorf("%w: %s", cause, said)
	}
	return cause
}

func (d *Driver) log(ctx context.Context, verb string, text *limitedBuffer) {
	if said := text.line(); said != "" && d.config.Logger != nil {
		d.config.Logger.LogAttrs(ctx, slog.LevelWarn, "driver program", slog.String("driver", d.Name()), slog.String("verb", verb), slog.String("stderr", said))
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
