package servicetest_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/sim"
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
func serve(c request) answer {
	_, raw, _ := strings.Cut(c.path, "?")
	query, _ := url.ParseQuery(raw)
	var body struct {
		Name  any
		Items []struct{ X any }
		Bad   any
	}
	if c.body != "" && (json.Unmarshal([]byte(c.body), &body) != nil || body.Bad != nil) {
		return answer{status: 400}
	}
	return answer{status: 200, seen: fmt.Sprint(query.Get("a"), query.Get("b"), body.Name, body.Items)}
}

func TestWrongAnswersAreFound(t *testing.T) {
	t.Parallel()
	all := request{method: "POST", path: "/things?a=1&b=2&c=3", body: `{"name": "n", "items": [{"x": 1, "y": 2}], "other": 1}`}
	truth := sim.Route{Query: []string{"a", "b"}, Body: []string{"name", "items[].x"}}
	tests := []struct {
		name  string
		route sim.Route
		cases []request
		want  []string
	}{
		{"the truth", truth, []request{all}, nil},
		{"a key that is not read", sim.Route{Query: []string{"a", "b", "c"}, Body: truth.Body}, []request{all}, []string{"nothing shows that the query key c is read"}},
		{"a key that is read in silence", sim.Route{Query: []string{"a"}, Body: truth.Body}, []request{all}, []string{"the query key b is read and not declared"}},
		{"a key said not to be read", sim.Route{Query: []string{"*", "!b"}, Body: truth.Body}, []request{all}, []string{"the query key b is read and not declared"}},
		{"a member that is not read", sim.Route{Query: truth.Query, Body: append([]string{"other"}, truth.Body...)}, []request{all}, []string{`nothing shows that "other" of the body is read`}},
		{"a member of items that is not read", sim.Route{Query: truth.Query, Body: append([]string{"items[].y"}, truth.Body...)}, []request{all}, []string{`nothing shows that "items[].y" of the body is read`}},
		{"a member said not to be read", sim.Route{Query: truth.Query, Body: []string{"*", "!name"}}, []request{all}, []string{"name of the body is read and declared not to be"}},
		{"a body that is not judged", sim.Route{Query: truth.Query, Body: []string{""}}, []request{all}, []string{"zzz at [] of the body is taken", "zzz at [items 0] of the body is taken"}},
		{"no case", truth, nil, []string{"query key a is", "query key b is", `"name" of`, `"items[].x" of`}},
		{"a case that is derived", sim.Route{Query: truth.Query, Body: []string{"name"}}, nil, nil},
		{"a case that is derived for a key that is not read", sim.Route{Query: []string{"a", "b", "c"}}, nil, []string{"nothing shows that the query key c is read"}},
		{"a case that is refused", truth, []request{all, {method: "POST", path: "/things", body: `{"bad": 1}`}}, []string{"refused: true, want false"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := &complaints{T: t}
			test.route.Method, test.route.Pattern = "POST", "/things"
			check(got, []sim.Route{test.route}, test.cases, serve)
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
