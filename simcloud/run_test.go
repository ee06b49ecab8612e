package simcloud_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/gocyborg/gocyborg/simcloud"
)

// endedTB is a test whose parent has not ended, so that its cleanups are still there.
type endedTB struct {
	recordingTB
	cleanups []func()
}

func (e *endedTB) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

// TestAnEndedTestHoldsNoCloud: thousands of parallel tests would hold as many clouds until the last one ends.
func TestAnEndedTestHoldsNoCloud(t *testing.T) {
	t.Parallel()
	tb := new(endedTB)
	cloud := weak.Make(simcloud.Run(tb))
	for _, end := range tb.cleanups {
		end()
	}
	for range 10 {
		if runtime.GC(); cloud.Value() == nil {
			break
		}
	}
	if cloud.Value() != nil || tb.failed {
		t.Errorf("held: %t; %s", cloud.Value() != nil, tb.text)
	}
	runtime.KeepAlive(tb)
}
