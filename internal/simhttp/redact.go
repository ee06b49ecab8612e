package simhttp

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unsafe"

	"github.com/gocyborg/gocyborg/sim"
)

// mask replaces a secret.
const mask = "***"

// minSecret is the length, in bytes, from which the value of a header is also redacted elsewhere. Shorter
// tokens, such as admin, are words of paths.
const minSecret = 16

var (
	// issuedToken are tokens in the forms that Keystone issues: Fernet and JSON web signature.
	issuedToken = regexp.MustCompile(`gAAAA[\w-]{16,}={0,2}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*`)
	// namedSecret is a secret behind its name.
	namedSecret = regexp.MustCompile(`(?i)([\w.-]*(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_.-]?key|access[_.-]?key|private[_.-]?key|signature|authorization)` +
		`[\w.-]*["']?\s*[=:]\s*["']?)[^\s&;,"'*][^\s&;,"']*`)
	// schemeSecret are the credentials of a header Authorization, and those in a URL.
	schemeSecret = regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[^\s&;,"']+`)
	userInfo     = regexp.MustCompile(`://[^/\s@]+@`)
)

// secretNames are parts of the names of secrets, in lower case and without separators.
var secretNames = []string{"password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "accesskey", "privatekey", "signature", "authorization"}

var withoutSeparators = strings.NewReplacer("_", "", "-", "", ".", "")

// isSecretName judges a query key, a header or a segment of a path. Keystone's filters such as
// password_expires_at are not secrets.
func isSecretName(name string) bool {
	return hasSecretName(name) && !strings.Contains(strings.ToLower(name), "expires")
}

func hasSecretName(text string) bool {
	text = withoutSeparators.Replace(strings.ToLower(text))
	return slices.ContainsFunc(secretNames, func(part string) bool { return strings.Contains(text, part) })
}

// redact removes the secrets of its request from what is recorded of an exchange.
func (s secrets) redact(e *sim.Exchange) {
	e.Path = s.path(e.Path)
	if query := s.query(e.Query); query != e.Query { // the line that they are parts of would stay in memory with any of them
		e.Query, e.Method, e.Path, e.Subject = query, strings.Clone(e.Method), strings.Clone(e.Path), strings.Clone(e.Subject)
	}
	e.Method, e.Subject, e.From = s.text(e.Method), s.text(e.Subject), s.text(e.From)
	for i, what := range e.Unrecognized {
		e.Unrecognized[i] = s.text(what)
	}
}

// RedactedURL is the path and the query of a request as the record shows them.
func RedactedURL(r *http.Request) (path, query string) {
	s := secretsOf(r.Header)
	return s.path(r.URL.Path), s.query(r.URL.RawQuery)
}

// changes masks the secrets in what a request changed. The list stays as it is.
func (s secrets) changes(list []sim.Change) []sim.Change {
	list = slices.Clone(list)
	for i := range list {
		list[i].ID, list[i].What = s.cut(s.text(list[i].ID)), s.cut(s.text(list[i].What))
	}
	return list
}

// cut masks the beginning of a secret where a text was shortened.
func (s secrets) cut(text string) string {
	kept, ok := strings.CutSuffix(text, "…")
	if !ok {
		return text
	}
	for _, value := range s {
		for n := len(value) - 1; n >= minSecret/2; n-- {
			if rest, found := strings.CutSuffix(kept, value[:n]); found {
				return rest + mask + "…"
			}
		}
	}
	return text
}

// secrets are the values of the headers of a request whose names indicate a secret.
type secrets []string

func secretsOf(header http.Header) (s secrets) {
	for name, values := range header {
		for _, value := range values {
			if value = lastWord(value); len(value) >= minSecret && isSecretName(name) {
				s = append(s, strings.Clone(value)) // the record may keep it, and not the line that it is part of
			}
		}
	}
	return s
}

// size is about how much memory the secrets take, in bytes.
func (s secrets) size() (n int64) {
	for _, value := range s {
		n += int64(unsafe.Sizeof(value)) + int64(len(value))
	}
	return n
}

// text masks the secrets in any text.
func (s secrets) text(text string) string {
	text = s.sent(text)
	if strings.Contains(text, "gAAAA") || strings.Contains(text, "eyJ") {
		text = issuedToken.ReplaceAllString(text, mask)
	}
	if strings.ContainsAny(text, " \t\n\f\r") && (containsFold(text, "bearer") || containsFold(text, "basic")) {
		text = schemeSecret.ReplaceAllString(text, "${1}"+mask)
	}
	if strings.Contains(text, "://") {
		text = userInfo.ReplaceAllString(text, "://"+mask+"@")
	}
	if strings.ContainsAny(text, "=:") && hasSecretName(text) {
		text = namedSecret.ReplaceAllString(text, "${1}"+mask)
	}
	return text
}

func containsFold(text, lower string) bool { return strings.Contains(strings.ToLower(text), lower) }

// sent masks the secrets of the headers.
func (s secrets) sent(text string) string {
	for _, value := range s {
		text = strings.ReplaceAll(text, value, mask)
	}
	return text
}

// path masks a segment that follows one such as tokens, too.
func (s secrets) path(path string) string {
	path = s.text(path)
	if !hasSecretName(path) {
		return path
	}
	segments := strings.Split(path, "/")
	for i := 1; i < len(segments); i++ {
		if segments[i] != "" && !strings.ContainsAny(segments[i-1], "=:") && isSecretName(segments[i-1]) {
			segments[i] = mask
		}
	}
	return strings.Join(segments, "/")
}

// query masks the values of keys that name a secret, however they are escaped.
func (s secrets) query(raw string) string {
	if raw == "" {
		return ""
	}
	pairs := strings.Split(raw, "&")
	for i, pair := range pairs {
		name, value, has := strings.Cut(pair, "=")
		secret := isSecretName(queryName(name))
		name = s.part(name)
		switch {
		case !has:
			pairs[i] = name
		case secret && value != "":
			pairs[i] = name + "=" + mask
		default:
			pairs[i] = name + "=" + s.part(value)
		}
	}
	return strings.Join(pairs, "&")
}

// part is a name or a value of a query, as it was sent if nothing in it is secret.
func (s secrets) part(raw string) string {
	plain := queryName(raw)
	if masked := s.text(plain); masked != plain {
		return url.QueryEscape(masked)
	}
	return raw
}
