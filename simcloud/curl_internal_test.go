package simcloud

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// readBack lets a shell print the words that it makes of a line.
func readBack(t interface {
	Fatalf(format string, args ...any)
}, shell string, words []string) []string {
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		quoted = append(quoted, shellQuoted(word))
	}
	out, err := exec.Command(shell, "-c", `printf '%s\0' `+strings.Join(quoted, " ")).Output()
	if err != nil {
		t.Fatalf("%s: %v: %q", shell, err, words)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// anyShell is a shell of this machine.
func anyShell(t testing.TB) string {
	t.Helper()
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no sh")
	}
	return shell
}

func TestAShellReadsQuotedWordsAsTheyAre(t *testing.T) {
	t.Parallel()
	shell := anyShell(t)
	word := rapid.OneOf(
		rapid.StringMatching(`[-@'"\\$`+"`"+`! *?~#&;|<>(){}\[\]\n\ta-c=%]{0,12}`),
		rapid.Map(rapid.SliceOf(rapid.ByteRange(1, 255)), func(b []byte) string { return string(b) }),
	)
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 1, 20).Draw(t, "words")
		if got := readBack(t, shell, words); !slices.Equal(got, words) {
			t.Fatalf("got %q, want %q", got, words)
		}
	})
}

func FuzzShellQuoted(f *testing.F) {
	shell := anyShell(f)
	for _, seed := range []string{"", "'", `'\''`, "$(reboot)", "-x", "a\nb", "\\", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, word string) {
		if strings.ContainsRune(word, 0) {
			return
		}
		if got := readBack(t, shell, []string{word, "end"}); !slices.Equal(got, []string{word, "end"}) {
			t.Errorf("got %q, want %q", got, word)
		}
	})
}

func TestCommentsStayOneLine(t *testing.T) {
	t.Parallel()
	if got, want := oneLine("GET /a\nrm -rf\r\x1b[2J\u0085/é"), "GET /a?rm -rf??[2J?/é"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
