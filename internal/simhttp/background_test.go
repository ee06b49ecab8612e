package simhttp_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// A process ends after Close: what a request has begun, such as a program that writes to a card, ends before.
func TestCloseWaitsForDetachedWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var work simhttp.Background
		client, gone := context.WithCancel(t.Context())
		ctx, end := work.Detach(client)
		ended := false
		go func() {
			defer end()
			<-ctx.Done()
			time.Sleep(time.Second) // until the program is killed
			ended = true
		}()
		gone()
		synctest.Wait()
		if ctx.Err() != nil {
			t.Error("the work ends with its client")
		}
		work.Close()
		if !ended {
			t.Error("Close returned before the work ended")
		}
		if ctx, end := work.Detach(t.Context()); ctx.Err() == nil {
			t.Error("work begins after Close")
		} else {
			end()
		}
		work.Close()
	})
}
