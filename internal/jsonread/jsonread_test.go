package jsonread_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/jsonread"
)

// inventory is what the tests read.
type inventory struct {
	Class string         `json:"class"`
	Total int            `json:"total"`
	Tags  []string       `json:"tags"`
	Used  map[string]int `json:"used"`
}

func read(text []byte) (got inventory, err error) {
	r := jsonread.New(text)
	r.Object(func(key []byte) {
		switch string(key) {
		case "class":
			got.Class = string(r.Optional())
		case "total":
			got.Total = r.Int()
		case "tags":
			r.Array(func() { got.Tags = append(got.Tags, string(r.String())) })
		case "used":
			got.Used = map[string]int{}
			r.Object(func(name []byte) { got.Used[string(name)] = r.Int() })
		default:
			r.Skip()
		}
	})
	return got, r.End()
}

func TestReader(t *testing.T) {
	tests := []struct {
		text string
		want inventory
		err  string
	}{
		{text: `{"class":"PGPU","total":8,"tags":["a","b"],"used":{"x":1,"y":-2}}`,
			want: inventory{Class: "PGPU", Total: 8, Tags: []string{"a", "b"}, Used: map[string]int{"x": 1, "y": -2}}},
		{text: " {\t\"tags\" : [ ] ,\n\"class\" : \"\\u00e4\\\"\" } ", want: inventory{Class: `ä"`}},
		{text: `{"links":[{"rel":"self","n":[1.5e-3,true,false,null,""]}],"total":1}`, want: inventory{Total: 1}},
		{text: `{"class":null,"total":null,"tags":null}`},
		{text: `null`},
		{text: ``, err: "unexpected end, want {"},
		{text: `{"total":1`, err: "at byte 10: unexpected end, want a comma or }"},
		{text: `{"total":1.5}`, err: "at byte 9: the number 1.5} is not a whole one, or too large"},
		{text: `{"total":"1"}`, err: `'"', want a digit`},
		{text: `{"class":"a}`, err: "want the end of a string"},
		{text: `{} {}`, err: "'{' after the document"},
		{text: `{"x":[1,]}`, err: "want a digit"},
		{text: `{"x":` + strings.Repeat("[", 20000) + `}`, err: "exceeded the depth of 10000"},
	}
	for _, tt := range tests {
		got, err := read([]byte(tt.text))
		if fmt.Sprint(err) != "<nil>" && tt.err == "" || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%.60s: error %v, want %q", tt.text, err, tt.err)
		}
		if tt.err == "" {
			if tt.want.Used == nil {
				got.Used = nil
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%.60s (-want +got):\n%s", tt.text, diff)
			}
		}
	}
}

// ExampleReader_Since keeps a part of a document as it is.
func ExampleReader_Since() {
	r := jsonread.New([]byte(`{"a": [1, 2], "b": {}}`))
	r.Object(func(key []byte) {
		begin := r.Begin()
		r.Skip()
		fmt.Printf("%s is %s\n", key, r.Since(begin))
	})
	fmt.Println(r.End())
	// Output:
	// a is [1, 2]
	// b is {}
	// <nil>
}

// FuzzReader compares with encoding/json what is accepted, and the members of an object.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":[{"c":null}],"a":"x"}`, `[1,-0.5e+7,"\ud83d"]`, `"` + "\xff" + `"`, "{\"\x00\":1}", `01`, `-`, `{"a":tru}`, "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := jsonread.New(text)
		r.Skip()
		if err := r.End(); (err == nil) != json.Valid(text) {
			t.Fatalf("error %v, and encoding/json has %t", err, json.Valid(text))
		}
		var want map[string]json.RawMessage
		if json.Unmarshal(text, &want) != nil {
			return
		}
		got := make(map[string]json.RawMessage)
		r = jsonread.New(text)
		r.Object(func(key []byte) {
			begin := r.Begin()
			r.Skip()
			got[string(key)] = slices.Clone(r.Since(begin))
		})
		if err := r.End(); err != nil || !maps.EqualFunc(got, want, slices.Equal[json.RawMessage]) {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	})
}
