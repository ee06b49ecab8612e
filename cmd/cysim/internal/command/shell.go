package command

import "strings"

// Quote quotes a value for the shell if it has to.
func Quote(value string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,=", r)
	}
	if value != "" && !strings.ContainsFunc(value, func(r rune) bool { return !plain(r) }) {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
