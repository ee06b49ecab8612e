package command

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// patience is the time after which a command that has printed nothing says that it works.
const patience = 2 * time.Second

// progress writes to standard error what a command does and for how long: after two seconds, and each time when the time
// has doubled. It ends with the first output of the command. A server prints its variables when it is ready.
type progress struct {
	command string
	step    atomic.Pointer[string]
	end     func()
}

// watch starts the progress of a command.
func watch(stderr io.Writer, command string) *progress {
	ended, stopped := make(chan struct{}), make(chan struct{})
	p := &progress{command: command, end: sync.OnceFunc(func() { close(ended); <-stopped })}
	p.doing("working")
	go func() {
		defer close(stopped)
		for began, after := time.Now(), patience; ; after *= 2 {
			select {
			case <-ended:
				return
			case <-time.After(time.Until(began.Add(after))):
				fmt.Fprintf(stderr, "cysim: %s: %s, after %s\n", p.command, *p.step.Load(), after)
			}
		}
	}()
	return p
}

// doing sets what the command does.
func (p *progress) doing(step string) { p.step.Store(&step) }

// before returns a writer of what ends the progress.
func (p *progress) before(to io.Writer) io.Writer { return ending{to, p} }

// ending is a writer that ends the progress of its command.
type ending struct {
	to       io.Writer
	progress *progress
}

// Write implements io.Writer.
func (e ending) Write(data []byte) (int, error) {
	e.progress.end()
	return e.to.Write(data)
}
