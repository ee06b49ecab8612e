package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A command that reads a pipe without a writer blocks until the first signal, which ends its context.
func TestASignalEndsTheWaitForAFile(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"model", "check"}, {"state", "show"}, {"lint", "--flavor"}, {"serve", "--model"}, {"serve", "--from"}, {"serve", "--faults"}, {"placement", "--faults"},
		{"cyborg", "--model"}, {"discover", "--driver-config"}, {"import", "--from-listing"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			pipe := filepath.Join(t.TempDir(), "pipe")
			must(t, syscall.Mkfifo(pipe, 0o600))
			ctx, signal := context.WithCancel(t.Context())
			defer signal()
			var stderr bytes.Buffer
			ended := make(chan int, 1)
			go func() { ended <- run(ctx, append(args[:len(args):len(args)], pipe), new(bytes.Buffer), &stderr) }()
			writer, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0) // fails until the command opens it
			for begin := time.Now(); err != nil && time.Since(begin) < 10*time.Second; writer, err = os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0) {
				time.Sleep(time.Millisecond)
			}
			must(t, err)
			defer writer.Close()
			signal()
			select {
			case status := <-ended:
				if status != 2 || !strings.Contains(stderr.String(), pipe+": interrupted while it was read") {
					t.Errorf("got status %d; %s", status, &stderr)
				}
			case <-time.After(10 * time.Second):
				t.Error("it goes on")
			}
		})
	}
}
