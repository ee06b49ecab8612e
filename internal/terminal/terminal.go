package terminal

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Line is a text without characters that act on a terminal or change how a line reads: those are written as
// in JSON, \u001b. They are control characters, line ends among them, the separators of lines and
// paragraphs, and controls of the direction of text. Each byte of invalid UTF-8 becomes U+FFFD.
func Line(text string) string { return escaped(text, "") }

func escaped(text, kept string) string {
	acts := func(r rune) bool { return actsOnTerminal(r) && !strings.ContainsRune(kept, r) }
	if utf8.ValidString(text) && !strings.ContainsFunc(text, acts) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if acts(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func actsOnTerminal(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// Writer writes as Line does to another writer, and keeps line feeds and tabs. What JSON says stays the same. It is safe
// for concurrent use.
type Writer struct {
	to   io.Writer
	mu   sync.Mutex
	rest []byte // of a character that is not complete
}

// NewWriter returns a Writer to another writer.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Write implements io.Writer.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	data := p
	if len(w.rest) > 0 {
		data = append(w.rest, p...)
	}
	whole := len(data) - incomplete(data)
	w.rest = bytes.Clone(data[whole:])
	if whole == 0 {
		return len(p), nil
	}
	if _, err := io.WriteString(w.to, escaped(string(data[:whole]), "\n\t")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// incomplete is the length of the character at the end that is not complete.
func incomplete(data []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(data)); n++ {
		if end := data[len(data)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}
