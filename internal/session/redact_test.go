package session_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/session"
)

// quotations are how servers and proxies quote what was sent.
func quotations() map[string]func(string) string {
	inJSON := func(text string) string {
		data, err := json.Marshal(text)
		if err != nil {
			panic(err)
		}
		return string(data)
	}
	return map[string]func(string) string{
		"plain": func(text string) string { return text },
		"JSON":  inJSON,
		"JSON in JSON": func(text string) string {
			return inJSON(inJSON(text))
		},
		"JSON in HTML":  func(text string) string { return html.EscapeString(inJSON(text)) },
		"JSON of ASCII": strconv.QuoteToASCII,
		"HTML":          html.EscapeString,
		"a query":       url.QueryEscape,
		"a path":        url.PathEscape,
		"a path in HTML": func(text string) string {
			return html.EscapeString(url.PathEscape(text))
		},
		"codes of HTML": func(text string) string {
			var codes strings.Builder
			for _, r := range text {
				fmt.Fprintf(&codes, "&#x%x;", r)
			}
			return codes.String()
		},
		"codes of JSON": func(text string) string {
			var codes strings.Builder
			for _, r := range text {
				fmt.Fprintf(&codes, `\u%04X`, r)
			}
			return codes.String()
		},
	}
}

func TestSecretsAreRedactedInEveryQuotation(t *testing.T) {
	t.Parallel()
	marks := strings.NewReplacer("&#34;", "", `"`, "", `\`, "") // around the secret
	for _, secret := range []string{"plainpassword", "Tr0ub4dor&3", `pa"ss\word`, "<geheim>", "pässwörd", "50%41 + x", "gAAAAABq-_token==", "a&amp;b", `\u0041bc`, "日本語"} {
		for name, quote := range quotations() {
			got := session.Redact("refused: "+quote(secret)+" (403)", []string{"", secret})
			if marks.Replace(got) != "refused: *** (403)" {
				t.Errorf("%s: %q became %q", name, quote(secret), got)
			}
		}
	}
}

// Nothing else of a text is changed.
func TestRedactKeepsTheRest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune(`a&lt;#38%2B5\u0041+"ä😀`))).Draw(t, "text")
		if got := session.Redact(text, []string{"secret"}); got != text {
			t.Errorf("%q became %q", text, got)
		}
		if got := session.Redact(text+" s%65cret "+text, []string{"secret"}); got != text+" *** "+text {
			t.Errorf("%q around a secret became %q", text, got)
		}
	})
}

// A password of one letter does not hide the letters of an error.
func TestAShortSecretIsRedactedAsAField(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ secret, text, want string }{
		{"a", `refused a {"password": "a", "name": "anna"}`, `refused a {"password": "***", "name": "anna"}`},
		{"a", `{\"password\": \"a\"} a page`, `{\"password\": \"***\"} a page`},
		{"a", "{&quot;password&quot;:&quot;a&quot;}", "{&quot;password&quot;:&quot;***&quot;}"},
		{"a", "username=anna&password=a&domain=b", "username=anna&password=***&domain=b"},
		{"a", "X-Auth-Token: a\r\nCause: a", "X-Auth-Token: ***\r\nCause: a"},
		{"admin", "the role admin is required, administrators: admin", "the role admin is required, administrators: admin"},
		{"admin", "{'secret': 'admin'}", "{'secret': '***'}"},
		{"1", `{"passcode":"1"} 1 of 11: passcode: 1`, `{"passcode":"***"} 1 of 11: passcode: ***`},
		{"pw1", "refused pw1, not pw12", "refused ***, not pw12"},
		{"a b", `"a b" or a b c`, `"***" or *** c`},
	} {
		if got := session.Redact(test.text, []string{test.secret}); got != test.want {
			t.Errorf("%q in %s: got %s, want %s", test.secret, test.text, got, test.want)
		}
	}
}
