package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostile is a text that clears a terminal, begins a line of its own and turns the direction of text.
const hostile = "x\x1b[2J\r\nnothing leaked\u009b2J\u202e"

func TestNoTextOfOthersActsOnTheTerminal(t *testing.T) {
	t.Parallel()
	inJSON, err := json.Marshal(hostile)
	must(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/refusing"):
			http.Error(w, hostile, http.StatusConflict)
		case strings.HasPrefix(r.URL.Path, "/leaking"):
			_, _ = w.Write([]byte(`{"leaks": [{"kind": "arq", "subject": "x", "text": ` + string(inJSON) + `}]}`))
		}
	}))
	defer server.Close()
	name := filepath.Join(t.TempDir(), "x\x1b[2J\u202e")
	if err := os.WriteFile(name, []byte(`{"x": `+string(inJSON)+`}`), 0o600); err != nil {
		t.Skip(err) // Windows has no such names
	}
	for _, args := range [][]string{
		{"check", server.URL + "/refusing"},
		{"check", server.URL + "/leaking"},
		{"check", server.URL + "/leaking", "-o", "json"},
		{"check", "http://" + hostile},
		{"state", "show", name},
		{"state", "diff", name + "2", name},
		{"import", name},
		{"discover", "--sysfs", name},
		{"lint", "--flavor", name},
		{hostile},
		{"--" + hostile},
	} {
		var stdout, stderr bytes.Buffer
		run(t.Context(), args, &stdout, &stderr)
		shown := stdout.String() + stderr.String()
		if strings.ContainsAny(shown, "\x1b\r\u009b\u202e") || strings.Contains(shown, "\nnothing leaked") {
			t.Errorf("%q shows %q", args, shown)
		}
		if shown == "" {
			t.Errorf("%q shows nothing", args)
		}
	}
}
