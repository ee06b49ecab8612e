package simcloud

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// curlHead begins the script: where the cloud is, and a token of the user of the
// environment.
const curlHead = `#!/usr/bin/env bash
# Sends again, in order, what clients sent to a simulated cloud. Needs curl. Who sends is
# told by the variables OS_AUTH_URL, OS_USERNAME, OS_PASSWORD and OS_PROJECT_NAME, as they
# are for OpenStack's clients and printed by cysim serve; $OS_TOKEN and $BASE win over them.
set -euo pipefail
json() { local s=${1//\\/\\\\}; printf '"%s"' "${s//\"/\\\"}"; }
token() {
  printf '{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": %s, "password": %s, "domain": {"name": "Default"}}}}, "scope": {"project": {"name": %s, "domain": {"name": "Default"}}}}}' \
    "$(json "$OS_USERNAME")" "$(json "$OS_PASSWORD")" "$(json "$OS_PROJECT_NAME")" |
    curl -sS -D - -o /dev/null -H 'Content-Type: application/json' --data-binary @- "$OS_AUTH_URL/auth/tokens" |
    sed -n 's/^[Xx]-[Ss]ubject-[Tt]oken: *\([^[:space:]]*\).*/\1/p'
}
OS_TOKEN=${OS_TOKEN:-$(token)}
BASE=${BASE:-${OS_AUTH_URL%/identity/v3}}
send() { curl -sS -g --path-as-is -w '\n%{http_code}\n' "$@" || echo "no answer"; }
`

// WriteCurl writes a bash script that sends the requests of the record again, one curl
// each, in order: those that came from outside, not those of the cloud's own services.
// Tokens and passwords are not in it: it logs in as the user of the environment
// ($OS_AUTH_URL, $OS_USERNAME, $OS_PASSWORD, $OS_PROJECT_NAME) unless $OS_TOKEN is set,
// and sends to $BASE. What cannot be sent again, such as logins, becomes a comment. The
// error is that of w.
func (c *Cloud) WriteCurl(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString(curlHead)
	requests, missing := c.sentRequests()
	for _, r := range requests {
		if login := r.Sent.ServiceLogin; login != "" && login != simhttp.UnknownLogin {
			user, project, _ := strings.Cut(login, "/")
			fmt.Fprintf(&b, "OS_SERVICE_TOKEN=${OS_SERVICE_TOKEN:-$(OS_USERNAME=%s OS_PROJECT_NAME=%s token)}\n", shellQuoted(user), shellQuoted(project))
			break
		}
	}
	if missing {
		b.WriteString("\n# The record does not begin with the cloud's first request.\n")
	}
	if c.loaded.Load() {
		b.WriteString("\n# The cloud had loaded a state before or in between, which is not in here.\n")
	}
	for _, r := range requests {
		b.WriteString("\n" + r.curl())
	}
	_, err := w.Write(b.Bytes())
	return err
}

// curl is the request as a command, under a comment that tells what came of it.
func (r sentRequest) curl() string {
	comment := fmt.Sprintf("# %s, as %s: %s\n", oneLine(r.Method+" "+r.Path), orNone(r.Sent.Login), outcomeText(r.Status))
	switch {
	case r.Operation == opLogin && r.Status == http.StatusCreated:
		return comment + "# left out: the script has a token\n"
	case r.Operation == opRevoke && r.Status == http.StatusNoContent:
		return comment + "# left out: it would end the script's own token\n"
	case r.lost != "":
		return comment + "# left out: " + r.lost + "\n"
	case strings.Contains(r.Sent.Body, simhttp.Redacted), strings.Contains(r.Sent.Body, "[token of "):
		return comment + "# left out: its secret is not kept\n"
	case strings.ContainsRune(r.Sent.Body, 0):
		return comment + "# left out: its body is binary\n"
	}
	words := []string{"send"}
	switch {
	case r.Method == http.MethodHead:
		words = append(words, "--head")
	default:
		words = append(words, "-X", shellQuoted(r.Method))
	}
	words = append(words, `"$BASE"`+shellQuoted(r.target))
	words = append(words, r.headerWords()...)
	if r.Sent.Body != "" {
		words = append(words, "--data-raw", shellQuoted(r.Sent.Body))
	}
	return comment + strings.Join(words, " ") + "\n"
}

// oneLine is a text without control characters, for a comment.
func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return '?'
		}
		return c
	}, text)
}

// headerWords are the headers that matter; curl's own are taken away where there were none.
func (r sentRequest) headerWords() []string {
	var words []string
	add := func(header string) { words = append(words, "-H", header) }
	for _, t := range []struct{ name, login, variable string }{
		{"X-Auth-Token", r.Sent.Login, "$OS_TOKEN"},
		{"X-Service-Token", r.Sent.ServiceLogin, "$OS_SERVICE_TOKEN"},
		{"X-Subject-Token", r.Sent.SubjectLogin, "$OS_TOKEN"},
	} {
		switch t.login {
		case "":
		case simhttp.UnknownLogin:
			add("'" + t.name + ": not-valid'")
		default:
			add(`"` + t.name + ": " + t.variable + `"`)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Sent.Header)) {
		if value := r.Sent.Header[name]; value != "" {
			add(shellQuoted(name + ": " + value))
		} else {
			add(shellQuoted(name + ";"))
		}
	}
	for _, name := range []string{"Accept", "Content-Type"} {
		if _, sent := r.Sent.Header[name]; !sent && (name == "Accept" || r.Sent.Body != "") {
			add("'" + name + ":'")
		}
	}
	return words
}

func outcomeText(status int) string {
	if status == 0 {
		return "no answer"
	}
	return fmt.Sprint(status)
}

// shellQuoted is a word of a POSIX shell that stands for the text. The text has no NUL.
func shellQuoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func (c *Cloud) getCurl(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	if err := c.WriteCurl(&b); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writePlain(w, b.Bytes())
}

// writePlain answers a text for people.
func writePlain(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(text) // the reader may be gone
}
