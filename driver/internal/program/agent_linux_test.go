package program_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/driver/internal/program"
)

// variable is set for the process that plays the agent. It has the path of the program to call.
const variable = "GOCYBORG_TEST_PROGRAM"

func TestAProgramEndsWithItsAgent(t *testing.T) {
	if path := os.Getenv(variable); path != "" {
		_, err := program.Program{Path: path}.Call(t.Context(), "program", time.Hour, nil)
		t.Fatal(err) // this process is killed
	}
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "loader")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec 3>"+pipe+"\necho writing >&3\nexec sleep 3600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	agent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	agent.Env = append(os.Environ(), variable+"="+path)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	read, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if _, err := io.ReadFull(read, make([]byte, len("writing\n"))); err != nil {
		t.Fatal(err)
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()                                                // it was killed
	if rest, err := io.ReadAll(read); err != nil || len(rest) > 0 { // up to the end of the program
		t.Errorf("%q, %v", rest, err)
	}
}
