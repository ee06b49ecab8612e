package schema

import (
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// ParseInt reads a text as Python's int does: blanks around it, a sign, single underscores between digits, and the decimal
// digits of any script. It reports whether the text is an integer of at most 4300 digits.
func ParseInt(text string) (n *big.Int, ok bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil { // nearly all
		return big.NewInt(n), true
	}
	text = strings.TrimFunc(text, isPythonSpace)
	sign := ""
	if text != "" && (text[0] == '+' || text[0] == '-') {
		sign, text = text[:1], text[1:]
	}
	digits := []byte(sign)
	last := '_'
	for _, r := range text {
		switch {
		case r == '_' && last == '_', r != '_' && !unicode.Is(unicode.Nd, r):
			return nil, false
		case r != '_':
			digits = append(digits, decimal(r))
		}
		last = r
	}
	if last == '_' || len(digits)-len(sign) > maxDigits {
		return nil, false
	}
	return new(big.Int).SetString(string(digits), 10)
}

// isPythonSpace reports whether Python's int takes a character for a blank.
func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// decimal is the digit that a decimal digit of a script means. Unicode has the ten digits of a script in a row, and digits before them only
// ten by ten.
func decimal(r rune) byte {
	n := rune(0)
	for unicode.Is(unicode.Nd, r-n-1) {
		n++
	}
	return '0' + byte(n%10)
}
