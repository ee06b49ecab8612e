package session

import (
	"bytes"
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escapes are the characters that begin the escaped form of another one.
const escapes = `\%&+`

// maxLayers is how often a text is read that is quoted in a text that is quoted.
const maxLayers = 4

// maskEscaped masks a secret in any of its escaped forms.
func maskEscaped(text, secret string) string {
	hidden := plain(secret).text
	if len(hidden) == 0 {
		return text
	}
	var masked strings.Builder
	rest, read, end := plain(text), 0, 0
	for {
		i := bytes.Index(rest.text[read:], hidden)
		if i < 0 {
			break
		}
		begin := read + i
		if isShort(secret) && !isValue(rest.text, begin, begin+len(hidden)) {
			read = begin + 1
			continue
		}
		read = begin + len(hidden)
		masked.WriteString(text[end:rest.at[begin]] + mask)
		end = rest.at[read]
	}
	return masked.String() + text[end:]
}

// unescaped is a text without escapes.
type unescaped struct {
	text []byte
	at   []int // where each byte was in the original, and where that ends
}

// plain reads the escapes of JSON, of HTML and of URLs, in which a space may be a plus sign.
// Backslashes are dropped.
func plain(text string) unescaped {
	u := unescaped{text: []byte(text), at: make([]int, len(text)+1)}
	for i := range u.at {
		u.at[i] = i
	}
	for range maxLayers {
		next := unescaped{text: make([]byte, 0, len(u.text)), at: make([]int, 0, len(u.at))}
		for i := 0; i < len(u.text); {
			char, n := unescape(u.text[i:])
			for range len(char) {
				next.at = append(next.at, u.at[i])
			}
			next.text = append(next.text, strings.ReplaceAll(char, "+", " ")...)
			i += n
		}
		next.at = append(next.at, len(text))
		if bytes.Equal(next.text, u.text) {
			break
		}
		u = next
	}
	return u
}

// unescape reads the first character of a text, and how long its form is.
func unescape(text []byte) (char string, n int) {
	switch text[0] {
	case '%':
		if code, ok := hex(text[1:], 2); ok {
			return string([]byte{byte(code)}), 3
		}
	case '&':
		if end := bytes.IndexByte(text[:min(len(text), len("&CounterClockwiseContourIntegral;"))], ';'); end > 0 {
			entity := string(text[:end+1])
			if char := html.UnescapeString(entity); char != entity && utf8.RuneCountInString(char) <= 2 { // no more than an entity is
				return char, end + 1
			}
		}
	case '\\':
		return unescapeBackslash(text)
	}
	return string(text[:1]), 1
}

// unescapeBackslash reads a character behind backslashes.
func unescapeBackslash(text []byte) (char string, n int) {
	n = len(text) - len(bytes.TrimLeft(text, `\`))
	rest := text[n:]
	if len(rest) == 0 {
		return "", n
	}
	code, ok := hex(rest[1:], 4)
	switch {
	case rest[0] != 'u' || !ok:
		return string(rest[:1]), n + 1
	case utf16.IsSurrogate(rune(code)) && bytes.HasPrefix(rest[5:], []byte(`\u`)):
		if low, ok := hex(rest[7:], 4); ok {
			return string(utf16.DecodeRune(rune(code), rune(low))), n + 11
		}
	}
	return string(rune(code)), n + 5
}

// hex reads a number of so many hexadecimal digits.
func hex(text []byte, digits int) (n uint64, ok bool) {
	if len(text) < digits {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[:digits]), 16, 32)
	return n, err == nil
}
