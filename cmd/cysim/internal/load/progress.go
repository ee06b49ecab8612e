package load

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
)

// progressBar shows the progress of a load: a bar on a terminal, else a line for each
// tenth.
type progressBar struct {
	mu      sync.Mutex
	w       io.Writer
	total   int
	steps   int
	writer  progress.Writer // nil: not a terminal
	tracker *progress.Tracker
	ended   chan struct{}
}

func newProgressBar(w io.Writer, total int) *progressBar {
	b := &progressBar{w: w, total: total}
	if !isTerminal(w) {
		return b
	}
	b.writer, b.ended = progress.NewWriter(), make(chan struct{})
	b.tracker = &progress.Tracker{Message: "spawns", Total: int64(total)}
	b.writer.SetOutputWriter(w)
	b.writer.SetAutoStop(false)
	b.writer.SetUpdateFrequency(100 * time.Millisecond)
	b.writer.AppendTracker(b.tracker)
	go func() {
		defer close(b.ended)
		b.writer.Render()
	}()
	return b
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (b *progressBar) step() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.steps++
	switch {
	case b.writer != nil:
		b.tracker.Increment(1)
	case b.steps*10/b.total != (b.steps-1)*10/b.total:
		fmt.Fprintf(b.w, "%d of %d\n", b.steps, b.total)
	}
}

// done removes the bar.
func (b *progressBar) done() {
	if b.writer == nil {
		return
	}
	b.tracker.MarkAsDone()
	b.writer.Stop()
	<-b.ended
}
