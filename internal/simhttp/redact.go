package simhttp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Redacted stands where a secret was in a body that is kept.
const Redacted = "[redacted]"

// TokenOf stands in a body that is kept where a token was of which the login is known.
func TokenOf(login string) string { return "[token of " + login + "]" }

// secretKeys are the members whose values are never kept: those of Keystone's
// authentication (keystone/auth/plugins) and of what it creates.
var secretKeys = []string{"password", "original_password", "secret", "passcode", "adminpass", "admin_pass"}

// suspicious are parts of every text that names a secret.
var suspicious = [][]byte{[]byte("pass"), []byte("secret"), []byte("token")}

// mayHoldSecret is false only for a body of which that is certain at a glance.
func mayHoldSecret(body []byte) bool {
	lower := bytes.ToLower(body)
	return bytes.IndexByte(body, '\\') >= 0 || slices.ContainsFunc(body, func(c byte) bool { return c >= utf8.RuneSelf }) ||
		slices.ContainsFunc(suspicious, func(part []byte) bool { return bytes.Contains(lower, part) })
}

// redact takes the secrets out of a JSON body and leaves all else as it was sent. It
// reports false for a body that may hold a secret and is no JSON object or array: nothing
// of that can be kept. Names are compared as encoding/json does, without regard to case. The login of a
// token is what login says, which may be nil.
func redact(body []byte, login func(token string) string) ([]byte, bool) {
	if !mayHoldSecret(body) {
		return body, true
	}
	r := &redactor{walker: walker{data: body}, login: login}
	if first := r.peek(); first != '{' && first != '[' || !json.Valid(body) {
		return nil, false
	}
	r.at = 0
	r.value("", false)
	return append(r.out, body[r.kept:]...), true
}

// redactor writes the body anew, piece by piece.
type redactor struct {
	walker
	login func(string) string
	out   []byte
	kept  int // how much of the body is in out
}

// value goes past the value of a member; all tells that everything below is secret.
func (r *redactor) value(key string, all bool) {
	secret := all || isSecret(key)
	switch r.peek() {
	case '{':
		inToken := strings.EqualFold(key, "token")
		inPassword := strings.EqualFold(key, "password") // {"user": {"name": ..., "password": ...}}
		r.object(func(name string) {
			if inToken && strings.EqualFold(name, "id") {
				r.replace()
				return
			}
			r.value(name, secret && !(inPassword && !all && strings.EqualFold(name, "user")))
		})
	case '[':
		r.array(func(int) { r.value(key, all) })
	default:
		if secret || strings.EqualFold(key, "token") {
			r.replace()
			return
		}
		r.skip()
	}
}

func isSecret(key string) bool {
	return slices.ContainsFunc(secretKeys, func(secret string) bool { return strings.EqualFold(key, secret) })
}

// replace goes past a value and writes something else in its place; null may stay.
func (r *redactor) replace() {
	start := r.skip()
	value := r.data[start:r.at]
	if string(value) == "null" {
		return
	}
	instead := Redacted
	if value[0] == '"' && r.login != nil {
		if who := r.login(unquoted(value)); who != "" {
			instead = TokenOf(who)
		}
	}
	quoted, err := json.Marshal(instead)
	if err != nil { // a text always encodes
		quoted = []byte(`""`)
	}
	r.out = append(append(r.out, r.data[r.kept:start]...), quoted...)
	r.kept = r.at
}
