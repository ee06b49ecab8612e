package schema_test

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/schema"
)

// slowDecode is Decode with encoding/json.
func slowDecode(data []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, io.ErrNoProgress
	}
	return plain(value), nil
}

// plain converts the numbers of a document.
func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return n
		}
		f, _ := strconv.ParseFloat(string(v), 64)
		return max(-math.MaxFloat64, min(f, math.MaxFloat64))
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = plain(v[key])
		}
	}
	return value
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"allocations": {"a": {"resources": {"VCPU": 2}}}, "consumer_generation": null}`, ` [1, -2.5e3, 1e999, 18446744073709551616, -0, 0.0, 1E+2]` + "\r\n\t",
		`"\u00e9\ud83d\ude00\ud83d\u0041\udc00\"\\\/\b\f\n\r\t"`, `"é😀"`, `{"a":1,"a":[true,false,null,{}]}`, `[[],{}]`, ``, ` `, `{`, `{"a"`, `{"a":}`, `{"a":1,}`, `[1,]`, `[1 2]`, `01`, `-`, `1.`, `.5`, `1e`, `+1`,
		`"a`, "\"\n\"", `"\x"`, `"\u12"`, `"\ud83d`, `"\ud83d\u"`, `nul`, `nulll`, `truefalse`, `1 2`, "\xff", "\"\\\x00\"", "\x00", `"\`, `{"a":1}}`,
		strings.Repeat("[", 10000) + strings.Repeat("]", 10000), strings.Repeat("[", 10001) + strings.Repeat("]", 10001), strings.Repeat(`{"a":`, 10001),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := schema.Decode(data)
		if strings.ToValidUTF8(string(data), "") != string(data) {
			if err == nil {
				t.Fatalf("%q: accepted", data)
			}
			return
		}
		want, wantErr := slowDecode(data)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: error %v, want %v", data, err, wantErr)
		}
		if wantErr != nil && wantErr != io.ErrNoProgress && err.Error() != wantErr.Error() {
			t.Fatalf("%q: error %v, want %v", data, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(want, got) { // go-cmp is exponential in the depth
			t.Fatalf("%q: got %#v, want %#v", data, got, want)
		}
	})
}
