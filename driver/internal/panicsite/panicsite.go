package panicsite

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// Text is " at FILE:LINE" of the function that panicked. It expects to be called by a deferred
// function.
func Text() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	panicked := false
	for {
		frame, more := frames.Next()
		inRuntime := strings.HasPrefix(frame.Function, "runtime.")
		switch panicked = panicked || inRuntime; {
		case panicked && !inRuntime && frame.Line > 0:
			return fmt.Sprintf(" at %s:%d", path.Base(frame.File), frame.Line)
		case !more:
			return ""
		}
	}
}
