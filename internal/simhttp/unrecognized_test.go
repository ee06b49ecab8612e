package simhttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestShapesListUnrecognizedMembers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		paths string
		body  string
		want  []string
	}{
		{"no body is read", "", `{"a": 1}`, []string{"body"}},
		{"white space is no body", "", " \n", nil},
		{"members", "a b", `{"a": {"x": 1}, "c": 2, "b": 1}`, []string{"body c"}},
		{"members of a member", "a.b", `{"a": {"b": {"x": 1}, "c": [1]}}`, []string{"body a.c"}},
		{"items", "[].a [].g[].*", `[{"a": 1, "b": 2}, {"g": [{"x": 1}, {"y": {"z": 2}}], "c": 1}]`, []string{"body [0].b", "body [1].c"}},
		{"any member", "*[].path", `{"u1": [{"path": 1, "form": 2}], "u2": 7}`, []string{"body u1[0].form"}},
		{"any but one", "* !c", `{"a": 1, "c": 2}`, []string{"body c"}},
		{"another kind of value", "a.b", `{"a": "text"}`, nil},
		{"a list where an object is known", "a.b", `{"a": [{"c": 1}]}`, nil},
		{"no JSON", "a", `{"a": 1, `, nil},
		{"judged as a whole", "-", `{"a": 1}`, nil},
		{"names are exact in case", "a", `{"A": 1}`, []string{"body A"}},
		{"escaped names", "a", `{"\u0061": 1, "\u0062": 1}`, []string{"body b"}},
		{"reported once", "a", `{"b": 1, "b": 2}`, []string{"body b"}},
	}
	for _, test := range tests {
		paths := strings.Fields(test.paths)
		if test.paths == "-" {
			paths = []string{""}
		}
		if diff := cmp.Diff(test.want, newShape(paths).unrecognizedBody([]byte(test.body))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestUnrecognizedListsAreBounded(t *testing.T) {
	t.Parallel()
	var body, query strings.Builder
	body.WriteString(`{"` + strings.Repeat("x", 1000) + `": 1`)
	for i := range 1000 {
		fmt.Fprintf(&body, `, "k%d": 1`, i)
		fmt.Fprintf(&query, "k%d=1&", i)
	}
	body.WriteString("}")
	list := newShape([]string{"a"}).unrecognizedBody([]byte(body.String()))
	if len(list) != maxUnrecognized || len(list[0]) > maxName+10 {
		t.Errorf("%d of the body, the first with %d bytes", len(list), len(list[0]))
	}
	if list := unrecognizedQuery(query.String(), nil); len(list) != maxUnrecognized {
		t.Errorf("%d of the query", len(list))
	}
}

func TestUnrecognizedQueryKeys(t *testing.T) {
	t.Parallel()
	got := unrecognizedQuery("limit=1&limitt=2&limitt=3&resources_A=x&b%20c=1&%zz=1&&d&sort=1", []string{"limit", "resources*", "!sort"})
	want := []string{"query limitt", "query b c", "query %zz", "query d", "query sort"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := unrecognizedQuery("a=1&sort=1", []string{"*", "!sort"}); !cmp.Equal(got, []string{"query sort"}) {
		t.Errorf("of all but one: %v", got)
	}
}

// strictService counts the requests that reach it.
func strictService(served *int) *Service {
	return &Service{
		Name: "test", Clock: Wall{}, IDs: NewIDs(1, "test"),
		Router: NewRouter(
			Route{Operation: "test.create", Method: "POST", Pattern: "/things", Input: Input{Query: []string{"dry"}, Body: []string{"name", "password"}}},
			Route{Operation: "test.data", Method: "PUT", Pattern: "/data", Input: Input{Data: true}},
			Route{Operation: "test.get", Method: "GET", Pattern: "/things", Input: Input{Query: []string{"limit"}}},
		),
		Handler: func(c *Call) error {
			*served++
			data, err := ReadBody(c.Request)
			if err != nil {
				return Refuse(http.StatusRequestEntityTooLarge, "%v", err)
			}
			_, err = fmt.Fprintf(c.W, "%d", len(data))
			return err
		},
		WriteError: func(c *Call, err error) { http.Error(c.W, err.Error(), AsError(err).Status) },
	}
}

func ask(h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestStrictServicesRefuseBeforeAnythingHappens(t *testing.T) {
	t.Parallel()
	served := 0
	recorder := NewRecorder(10)
	recorder.RefusesUnrecognized = true
	h := Recording(strictService(&served), recorder)
	for _, test := range []struct {
		method, target, body string
		header               []string
		want                 string
	}{
		{"POST", "/things?dry=1", `{"name": "x"}`, []string{"X-Own", "1"}, ""},
		{"POST", "/things?try=1", `{"nam": "x"}`, []string{"X-Foo", "1", "X-Bar", "1"}, "query try, body nam"},
		{"GET", "/things?limit=1", `{}`, nil, "body"},
		{"PUT", "/data", `{}`, nil, ""},
		{"GET", "/nowhere?a=1", ``, nil, ""},
	} {
		before := served
		w := ask(h, test.method, test.target, test.body, test.header...)
		if test.want == "" {
			if served != before+1 {
				t.Errorf("%s %s was not served: %s", test.method, test.target, w.Body)
			}
			continue
		}
		if w.Code != 400 || served != before || !strings.HasSuffix(strings.TrimSpace(w.Body.String()), "Unrecognized: "+test.want) {
			t.Errorf("%s %s: %d %s, want 400 naming %s", test.method, test.target, w.Code, w.Body, test.want)
		}
	}
	list := recorder.Exchanges()
	if got, want := strings.Join(list[1].Unrecognized, ", "), "query try, body nam"; got != want {
		t.Errorf("recorded as %s, want %s", got, want)
	}
}

// unrecognizedSlowly is what a shape of the paths does not read of a decoded value, said in
// another way: a member is read if a path, or a part of one, leads to it.
func unrecognizedSlowly(paths [][]string, value any, at []string, into map[string]bool) {
	fit := func(place []string) (inside, led bool) {
		for _, path := range paths {
			same := true
			for i, step := range path[:min(len(path), len(place))] {
				same = same && step == place[i]
			}
			inside = inside || same && len(place) > len(path)
			led = led || same && len(place) <= len(path)
		}
		return inside, led
	}
	switch v := value.(type) {
	case map[string]any:
		known := slices.ContainsFunc(paths, func(path []string) bool {
			return len(path) > len(at) && path[len(at)] != "[]" && slices.Equal(path[:len(at)], at)
		})
		for name, member := range v {
			if !known {
				break // the service refuses an object where it knows a list
			}
			place := append(at[:len(at):len(at)], name)
			switch inside, led := fit(place); {
			case inside: // below the end of a path
			case led:
				unrecognizedSlowly(paths, member, place, into)
			default:
				into["body "+shown(place)] = true
			}
		}
	case []any:
		for i, item := range v {
			place := append(at[:len(at):len(at)], fmt.Sprintf("[%d]", i))
			general := append(at[:len(at):len(at)], "[]")
			if _, led := fit(general); led {
				sub := make(map[string]bool)
				unrecognizedSlowly(paths, item, general, sub)
				for text := range sub {
					into[strings.Replace(text, shown(general), shown(place), 1)] = true
				}
			}
		}
	}
}

func shown(place []string) string {
	return strings.TrimPrefix(strings.ReplaceAll("."+strings.Join(place, "."), ".[", "["), ".")
}

func TestShapesAgreeWithASlowReading(t *testing.T) {
	t.Parallel()
	step := rapid.SampledFrom([]string{"a", "b", "c", "[]"})
	rapid.Check(t, func(t *rapid.T) {
		var paths []string
		var split [][]string
		for range rapid.IntRange(1, 4).Draw(t, "paths") {
			steps := rapid.SliceOfN(step, 1, 4).Draw(t, "path")
			if slices.ContainsFunc(split, func(other []string) bool { n := min(len(other), len(steps)); return slices.Equal(other[:n], steps[:n]) }) {
				continue // a path that is the beginning of another has no meaning of its own
			}
			split = append(split, steps)
			paths = append(paths, strings.Join(steps, "."))
		}
		value := rapid.OneOf(
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), plainJSON(4), 0, 3), func(m map[string]any) any { return m }),
			rapid.Map(rapid.SliceOfN(plainJSON(4), 0, 3), func(s []any) any { return s }),
		).Draw(t, "value")
		body, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[string]bool)
		unrecognizedSlowly(split, value, nil, want)
		got := make(map[string]bool)
		for _, text := range newShape(paths).unrecognizedBody(body) {
			got[text] = true
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%v of %s (-want +got):\n%s", paths, body, diff)
		}
	})
}

// plainJSON draws a value with few names.
func plainJSON(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(rapid.Just(any(nil)), rapid.Just(any(1.0)), rapid.Just(any("x")))
	if depth == 0 {
		return scalar
	}
	below := rapid.Deferred(func() *rapid.Generator[any] { return plainJSON(depth - 1) })
	return rapid.OneOf(scalar,
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), below, 0, 3), func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(below, 0, 3), func(s []any) any { return s }))
}
