package strictjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/internal/strictjson"
)

// repeats reports whether an object in the next value has a member twice, by the tokens of
// encoding/json.
func repeats(t *rapid.T, dec *json.Decoder) (found bool) {
	token, err := dec.Token()
	if err != nil {
		t.Fatal(err)
	}
	open, _ := token.(json.Delim)
	if open == 0 {
		return false
	}
	members := make(map[any]bool)
	for dec.More() {
		if open == '{' {
			name, err := dec.Token()
			if err != nil {
				t.Fatal(err)
			}
			found = found || members[name]
			members[name] = true
		}
		found = repeats(t, dec) || found
	}
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	return found
}

// value draws the text of a JSON value.
func value(t *rapid.T, depth int) string {
	name := rapid.SampledFrom([]string{`a`, `b`, `c`, `\u0061`, `é`, `\u00e9`, `\"`, `\\`, `{`, `,`, "\xff", "\xfe", ``})
	kind := rapid.SampledFrom([]string{"text", "number", "list", "object", "object"}).Draw(t, "kind")
	switch {
	case kind == "text":
		return `"` + name.Draw(t, "text") + `"`
	case kind == "number" || depth == 0:
		return "-1.5e3"
	}
	var parts []string
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		part := value(t, depth-1)
		if kind == "object" {
			part = `"` + name.Draw(t, "name") + `" : ` + part
		}
		parts = append(parts, part)
	}
	if kind == "list" {
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestRepeatedMembersAgreeWithTheTokens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := value(t, 4)
		want := repeats(t, json.NewDecoder(bytes.NewReader([]byte(text))))
		if err := strictjson.NoRepeatedMembers([]byte(text)); (err != nil) != want {
			t.Fatalf("%s: %v, repeated %t", text, err, want)
		}
	})
}

func TestRepeatedMembersOfALargeObject(t *testing.T) {
	t.Parallel()
	for n := 1; n < 100; n++ {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"m%d":{"x":1}`, i))
		}
		once := `{"o":{` + strings.Join(all, ",") + `}}`
		if err := strictjson.NoRepeatedMembers([]byte(once)); err != nil {
			t.Errorf("%d members: %v", n, err)
		}
		for _, twice := range []string{"m0", fmt.Sprint("m", n-1)} {
			text := strings.Replace(once, "}}}", fmt.Sprintf(`},%q:1}}`, twice), 1)
			if err := strictjson.NoRepeatedMembers([]byte(text)); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("member %q is repeated", twice)) {
				t.Errorf("%d members: %v, want %s", n, err, twice)
			}
		}
	}
}
