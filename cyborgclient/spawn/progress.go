package spawn

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
)

// ProgressEvent says what a [Progress] reports.
type ProgressEvent string

// The events of a step.
const (
	ProgressBegin  ProgressEvent = "begin"  // the step begins
	ProgressEnd    ProgressEvent = "end"    // it has ended, with Err or the decision in Text
	ProgressStage  ProgressEvent = "stage"  // the unwinding begins to remove effects of the [LeftoverKind] in Text
	ProgressRetry  ProgressEvent = "retry"  // a request is repeated after Duration, because of Err, or to look for a late effect
	ProgressUndone ProgressEvent = "undone" // the resource in Text was released
	ProgressLeft   ProgressEvent = "left"   // Leftover, described in Text, could not be released
)

// Progress reports an event of a spawn, a release, or the wait and the cleanup of an operation. Text and Err contain
// no token.
type Progress struct {
	Instance string
	Host     string // as soon as it is chosen
	Step     Step
	Event    ProgressEvent
	Text     string
	Duration time.Duration // of the step at its end; before a retry, the pause
	Err      error
	Leftover *Leftover // of ProgressLeft
}

// WithObserver calls a function for every event of an instance, in order, with the context of the call. It runs in
// the goroutine of the call, so it must not block, and may be called for several instances at once. Each option adds
// an observer; nil adds none.
func WithObserver(observe func(context.Context, Progress)) Option {
	return func(f *Flow) {
		if observe != nil {
			f.observers = append(f.observers, observe)
		}
	}
}

// WithLogger logs the events that an observer gets: the start of a step and checks for late effects at level debug,
// failures, retries and suspects as warnings, certain leftovers as errors, and the rest as information. With nil
// nothing is logged.
func WithLogger(logger *slog.Logger) Option {
	if logger == nil {
		return WithObserver(nil)
	}
	return WithObserver(func(ctx context.Context, p Progress) { p.log(ctx, logger) })
}

func (p Progress) log(ctx context.Context, logger *slog.Logger) {
	level, message := p.rank()
	attrs := make([]slog.Attr, 0, 6)
	for _, attr := range [...]struct{ key, value string }{
		{"instance", p.Instance}, {"host", p.Host}, {"step", p.Step.String()}, {"text", p.Text},
	} {
		if attr.value != "" {
			attrs = append(attrs, slog.String(attr.key, attr.value))
		}
	}
	if p.Duration > 0 {
		attrs = append(attrs, slog.Duration("duration", p.Duration))
	}
	if p.Err != nil {
		attrs = append(attrs, slog.String("error", p.Err.Error()))
	}
	logger.LogAttrs(ctx, level, message, attrs...)
}

// rank returns level and message for a log.
func (p Progress) rank() (slog.Level, string) {
	switch p.Event {
	case ProgressBegin:
		return slog.LevelDebug, "step begins"
	case ProgressEnd:
		if p.Err != nil {
			return slog.LevelWarn, "step failed"
		}
		return slog.LevelInfo, "step ended"
	case ProgressRetry:
		if p.Err != nil {
			return slog.LevelWarn, "trying again"
		}
		return slog.LevelDebug, "looking again"
	case ProgressLeft:
		if p.Leftover.Certain {
			return slog.LevelError, "not cleaned up"
		}
		return slog.LevelWarn, "possibly not cleaned up"
	}
	return slog.LevelInfo, string(p.Event)
}

// report notifies the observers.
func (r *recorder) report(ctx context.Context, p Progress) {
	p.Instance, p.Host = r.instance, r.host
	returned := false
	defer func() {
		if !returned {
			r.observers = nil // an observer that panics must not stop the unwinding
		}
	}()
	for _, observe := range r.observers {
		observe(ctx, p)
	}
	returned = true
}

// reportRetry notifies the observers of the step of a context about a retry.
func reportRetry(ctx context.Context, pause time.Duration, err error) {
	if report, ok := ctx.Value(stepKey{}).(func(context.Context, Progress)); ok {
		report(ctx, Progress{Event: ProgressRetry, Duration: pause, Err: err})
	}
}

// reportUndone reports what was removed since the last call.
func (r *recorder) reportUndone(ctx context.Context, j *ledger.Journal) {
	removed := j.Removed()
	for _, undone := range namesOf(removed[r.undone:]) {
		r.report(ctx, Progress{Step: StepUnwind, Event: ProgressUndone, Text: undone})
	}
	r.undone = len(removed)
}

// reportLeft reports the leftovers that are new since the last call.
func (r *recorder) reportLeft(ctx context.Context, j *ledger.Journal) {
	for _, l := range leftoversOf(j) {
		text := l.String()
		if !slices.ContainsFunc(r.left, func(known Leftover) bool { return known.same(l) && known.String() == text }) {
			r.left = append(r.left, l)
			r.report(ctx, Progress{Step: StepUnwind, Event: ProgressLeft, Text: text, Leftover: &l})
		}
	}
}
