package inputtest_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/simhttp/inputtest"
)

// complaints is a test that keeps its errors.
type complaints struct {
	*testing.T
	list []string
}

func (c *complaints) Errorf(format string, args ...any) {
	c.list = append(c.list, fmt.Sprintf(format, args...))
}

// serve is a service that reads the query keys a and b, and name and the x of all items of
// the body; it refuses the member bad.
func serve(c inputtest.Case) inputtest.Answer {
	_, raw, _ := strings.Cut(c.Path, "?")
	query, _ := url.ParseQuery(raw)
	var body struct {
		Name  any
		Items []struct{ X any }
		Bad   any
	}
	if c.Body != "" && (json.Unmarshal([]byte(c.Body), &body) != nil || body.Bad != nil) {
		return inputtest.Answer{Status: 400}
	}
	return inputtest.Answer{Status: 200, Seen: fmt.Sprint(query.Get("a"), query.Get("b"), body.Name, body.Items)}
}

func TestLiesAreFound(t *testing.T) {
	t.Parallel()
	all := inputtest.Case{Method: "POST", Path: "/things?a=1&b=2&c=3", Body: `{"name": "n", "items": [{"x": 1, "y": 2}], "other": 1}`}
	truth := simhttp.Input{Query: []string{"a", "b"}, Body: []string{"name", "items[].x"}}
	tests := []struct {
		name  string
		input simhttp.Input
		cases []inputtest.Case
		want  []string
	}{
		{"the truth", truth, []inputtest.Case{all}, nil},
		{"a key that is not read", simhttp.Input{Query: []string{"a", "b", "c"}, Body: truth.Body}, []inputtest.Case{all}, []string{"nothing shows that the query key c is read"}},
		{"a key that is read in silence", simhttp.Input{Query: []string{"a"}, Body: truth.Body}, []inputtest.Case{all}, []string{"the query key b is read and not declared"}},
		{"a key said not to be read", simhttp.Input{Query: []string{"*", "!b"}, Body: truth.Body}, []inputtest.Case{all}, []string{"the query key b is read and not declared"}},
		{"a member that is not read", simhttp.Input{Query: truth.Query, Body: append([]string{"other"}, truth.Body...)}, []inputtest.Case{all}, []string{`nothing shows that "other" of the body is read`}},
		{"a member of items that is not read", simhttp.Input{Query: truth.Query, Body: append([]string{"items[].y"}, truth.Body...)}, []inputtest.Case{all}, []string{`nothing shows that "items[].y" of the body is read`}},
		{"a member said not to be read", simhttp.Input{Query: truth.Query, Body: []string{"*", "!name"}}, []inputtest.Case{all}, []string{"name of the body is read and declared not to be"}},
		{"a body that is not judged", simhttp.Input{Query: truth.Query, Body: []string{""}}, []inputtest.Case{all}, []string{"zzz at [] of the body is taken", "zzz at [items 0] of the body is taken"}},
		{"no case", truth, nil, []string{"query key a is", "query key b is", `"name" of`, `"items[].x" of`}},
		{"a case that is refused", truth, []inputtest.Case{all, {Method: "POST", Path: "/things", Body: `{"bad": 1}`}}, []string{"refused: true, want false"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := &complaints{T: t}
			inputtest.Check(got, []simhttp.Route{{Operation: "o", Method: "POST", Pattern: "/things", Input: test.input}}, test.cases, serve)
			var missing []string
			for i, want := range test.want {
				if i >= len(got.list) || !strings.Contains(got.list[i], want) {
					missing = append(missing, want)
				}
			}
			if missing != nil || len(got.list) != len(test.want) {
				t.Errorf("got %s", cmp.Diff(test.want, got.list))
			}
		})
	}
}
