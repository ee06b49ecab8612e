package simhttp

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const hidden = "hunter2"

func TestSecretsAreTakenOut(t *testing.T) {
	t.Parallel()
	login := func(token string) string {
		if token == hidden {
			return "alice/lab"
		}
		return ""
	}
	tests := []struct{ name, body, want string }{
		{"nothing secret", `{"name": "x", "n": 1e3}`, `{"name": "x", "n": 1e3}`},
		{"the word in a value", `{"name": "password"}`, `{"name": "password"}`},
		{
			"password", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"a","password":"p"}}}}}`,
			`{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"a","password":"[redacted]"}}}}}`,
		},
		{"password where none belongs", `{"password": {"value": "p", "user": {"id": "x"}}}`, `{"password": {"value": "[redacted]", "user": {"id": "x"}}}`},
		{"other case", `{"PassWord": 12}`, `{"PassWord": "[redacted]"}`},
		{"letters that fold", `{"pa` + "\u017f\u017f" + `word": "p"}`, `{"pa` + "\u017f\u017f" + `word": "[redacted]"}`},
		{"escaped name", `{"pass\u0077ord": "p"}`, `{"pass\u0077ord": "[redacted]"}`},
		{"list", `{"secret": ["a", {"b": "c"}, null]}`, `{"secret": ["[redacted]", {"b": "[redacted]"}, null]}`},
		{"token", `{"token": {"id": "t", "x": 1}}`, `{"token": {"id": "[redacted]", "x": 1}}`},
		{"token of a login", `{"token": {"id": "hunter2"}}`, `{"token": {"id": "[token of alice/lab]"}}`},
		{"token as text", `{"token": "t"}`, `{"token": "[redacted]"}`},
		{"application credential", `{"application_credential":{"id":"i","secret":"s"}}`, `{"application_credential":{"id":"i","secret":"[redacted]"}}`},
		{"twice", `{"password":"a","password":"b"}`, `{"password":"[redacted]","password":"[redacted]"}`},
		{"spaces", " {\n\"password\"\t:  \"a\" , \"b\" : [ ] } ", " {\n\"password\"\t:  \"[redacted]\" , \"b\" : [ ] } "},
	}
	for _, test := range tests {
		got, ok := redact([]byte(test.body), login)
		if !ok || string(got) != test.want {
			t.Errorf("%s: got %s, %v, want %s", test.name, got, ok, test.want)
		}
	}
	for _, body := range []string{`{"password": "a"`, `password=a`, `"password a"`, "\xff", `\`} {
		if got, ok := redact([]byte(body), nil); ok {
			t.Errorf("%q was kept as %q", body, got)
		}
	}
}

// redactedSlowly is what redact does, said in another way.
func redactedSlowly(key string, value any, all bool) any {
	secret := all || isSecret(key)
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			switch {
			case strings.EqualFold(key, "token") && strings.EqualFold(name, "id"):
				if out[name] = any(Redacted); item == nil {
					out[name] = nil
				}
			case secret && !all && strings.EqualFold(key, "password") && strings.EqualFold(name, "user"):
				out[name] = redactedSlowly(name, item, false)
			default:
				out[name] = redactedSlowly(name, item, secret)
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, redactedSlowly(key, item, all))
		}
		return out
	case nil:
		return nil
	}
	if secret || strings.EqualFold(key, "token") {
		return Redacted
	}
	return value
}

// anyJSON draws a JSON value.
func anyJSON(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(rapid.Just(any(hidden)), rapid.Just(any(nil)), rapid.Just(any(true)), rapid.Just(any(1.5)), rapid.Map(rapid.String(), func(s string) any { return s }))
	if depth == 0 {
		return scalar
	}
	below := rapid.Deferred(func() *rapid.Generator[any] { return anyJSON(depth - 1) })
	names := rapid.OneOf(rapid.SampledFrom([]string{"password", "Secret", "token", "id", "user", "auth", "name", "TOKEN", "\u212aey", "adminPass"}), rapid.String())
	return rapid.OneOf(scalar,
		rapid.Map(rapid.MapOfN(names, below, 0, 4), func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(below, 0, 4), func(s []any) any { return s }))
}

func TestRedactionChangesNothingButSecrets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOfN(rapid.SampledFrom([]string{"password", "token", "a"}), anyJSON(4), 0, 3).Draw(t, "value")
		body, err := json.MarshalIndent(value, "", rapid.SampledFrom([]string{"", " "}).Draw(t, "indent"))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := redact(body, nil)
		if !ok {
			t.Fatalf("%s was not kept", body)
		}
		var changed, again any
		if err := json.Unmarshal(got, &changed); err != nil {
			t.Fatalf("%s became %s: %v", body, got, err)
		}
		if err := json.Unmarshal(body, &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(redactedSlowly("", again, false), changed); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", body, diff)
		}
	})
}

func FuzzRedact(f *testing.F) {
	for _, seed := range []string{`{"password": "x"}`, `[{"token":{"id":"a"}}]`, `{"a":"\"}`, `{"secret":`, `{"a" "b"}`, "[[[[", `{"password":{"user":{"password":null}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, ok := redact(bytes.Clone(body), nil)
		switch {
		case !ok:
		case json.Valid(body) != json.Valid(got):
			t.Errorf("%q became %q", body, got)
		case json.Valid(got):
			if again, ok := redact(bytes.Clone(got), nil); !ok || !bytes.Equal(again, got) {
				t.Errorf("%q became %q, and that %q", body, got, again)
			}
		case mayHoldSecret(body):
			t.Errorf("%q was kept", body)
		}
		newShape([]string{"a.b", "[].*"}).unreadBody(body)
	})
}
