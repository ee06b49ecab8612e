package command_test

import (
	"os/exec"
	"testing"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

func TestQuotedValuesSurviveTheShell(t *testing.T) {
	t.Parallel()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -~\t\n]{0,12}`).Draw(t, "value")
		out, err := exec.Command(shell, "-c", "V="+command.Quote(value)+`; printf %s "$V."`).Output()
		if err != nil || string(out) != value+"." {
			t.Errorf("Quote(%q) = %s: the shell reads %q, error %v", value, command.Quote(value), out, err)
		}
	})
}

func TestPlainValuesStayReadable(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"http://127.0.0.1:80/v3": "http://127.0.0.1:80/v3",
		"http://[::1]:80/v3":     "'http://[::1]:80/v3'",
		"":                       "''",
		"it's":                   `'it'\''s'`,
	} {
		if got := command.Quote(value); got != want {
			t.Errorf("Quote(%q): got %s, want %s", value, got, want)
		}
	}
}
