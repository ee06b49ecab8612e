package session

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gophercloud/gophercloud/v2"
)

// Redact removes secrets from a text, in case a server or a proxy quotes one, also as JSON, HTML or a part of a URL.
// A secret of fewer than 6 bytes that may be a word or a number of the text is removed only where
// it is the value of a field.
func Redact(text string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" && !isShort(secret) {
			text = strings.ReplaceAll(text, secret, mask)
		}
	}
	escaped := strings.ContainsAny(text, escapes)
	for _, secret := range secrets {
		if escaped || isShort(secret) {
			text = maskEscaped(text, secret)
		}
	}
	return text
}

// mask replaces a secret.
const mask = "***"

func isShort(secret string) bool { return len(secret) < 6 }

// secretField matches the text before the value of a header or a form field with a secret.
var secretField = regexp.MustCompile(`(?i)(token|password|passcode|secret)[\w-]*\s*:\s*$`)

// isValue reports whether a short secret in a text is not a part of a word, and is the value of a field if it
// may be a word or a number.
func isValue(text []byte, begin, end int) bool {
	before, _ := utf8.DecodeLastRune(text[:begin])
	after, _ := utf8.DecodeRune(text[end:])
	if inWord(before) || inWord(after) {
		return false
	}
	secret := text[begin:end]
	isWord := len(bytes.TrimFunc(secret, unicode.IsLetter)) == 0 || len(bytes.TrimFunc(secret, unicode.IsDigit)) == 0
	return !isWord || strings.ContainsRune("\"'=", before) || secretField.Match(text[:begin])
}

func inWord(char rune) bool {
	return unicode.IsLetter(char) || unicode.IsDigit(char) || char == '_' || char == '-'
}

// How much of an error answer is kept, and shown in the text of an error that this package does not decode, in bytes.
const (
	keptBody  = 64 << 10
	shownText = 1 << 10
)

// Excerpt is the beginning of the body of an error answer, without the secrets.
func Excerpt(body []byte, secrets []string) []byte {
	return []byte(excerpt(string(body), secrets, keptBody))
}

// excerpt redacts more than it returns, to find a secret at the end.
func excerpt(text string, secrets []string, most int) string {
	return clip(Redact(clip(text, 2*most), secrets), most)
}

// clip shortens a text to at most n bytes, without cutting a character.
func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}

// Redacted removes the tokens that were sent from the text of an error, and from the body of
// the error answer in it. Both are shortened: a proxy may answer a login with a page of any length.
func (o *Outcome) Redacted(err error) error {
	if err == nil {
		return nil
	}
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		if body := Excerpt(answer.Body, o.Sent); !bytes.Equal(body, answer.Body) {
			answer.Body = body
			err = answer
		}
	}
	if text := excerpt(err.Error(), o.Sent, shownText); text != err.Error() {
		return &redacted{text, err}
	}
	return err
}

// Locate makes a client of a service after the catalog of the provider. It asks the service for nothing: gophercloud's
// own functions ask it for its versions, and wait for the answer without end.
func Locate(provider *gophercloud.ProviderClient, kind string, endpoint gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error) {
	endpoint.ApplyDefaults(kind)
	endpoint.Version = 0
	url, err := provider.EndpointLocator(endpoint)
	if err != nil {
		return nil, err
	}
	return &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: url, Type: kind}, nil
}

// redacted is an error whose own text has a secret or is too long.
type redacted struct {
	text  string
	cause error
}

// Error implements error.
func (r *redacted) Error() string { return r.text }

// Unwrap returns the cause.
func (r *redacted) Unwrap() error { return r.cause }
