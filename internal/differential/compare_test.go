package differential_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/differential"
)

func TestAnswersDifferByPart(t *testing.T) {
	t.Parallel()
	compare := differential.Comparison{
		Known: func(id string) bool { return id[0] == 'a' },
		Text: func(body any) (string, any) {
			fields := body.(map[string]any)
			text, _ := fields["text"].(string)
			delete(fields, "text")
			return text, fields
		},
	}
	answer := func(status int, body string, header ...string) differential.Answer {
		a := differential.Answer{Status: status, Header: make(http.Header), Body: body}
		for i := 0; i < len(header); i += 2 {
			a.Header.Set(header[i], header[i+1])
		}
		return a
	}
	const a, b, c = "aaaaaaaa-0000-4000-8000-000000000000", "bbbbbbbb-0000-4000-8000-000000000000", "cccccccc-0000-4000-8000-000000000000"
	for name, test := range map[string]struct {
		theirs, ours differential.Answer
		want         [][3]string
	}{
		"what the services make up": {
			answer(200, `{"id": "`+b+`", "at": "2026-01-02T03:04:05Z", "link": "http://127.0.0.1:80/x"}`, "Date", "now", "X-Openstack-Request-Id", "req-"+b),
			answer(200, `{"id": "`+c+`", "at": "2027-01-02T03:04:05Z", "link": "http://127.0.0.1:81/x"}`, "X-Openstack-Request-Id", "req-"+c), nil,
		},
		"a known id":            {answer(200, `{"id": "`+a+`"}`), answer(200, `{"id": "`+b+`"}`), [][3]string{{"body .id", `"` + a + `"`, `"ID"`}}},
		"the form of a time":    {answer(200, `["2026-01-02T03:04:05Z"]`), answer(200, `["2026-01-02 03:04:05.1"]`), [][3]string{{"body []", `"TIMETZ"`, `"TIME .f"`}}},
		"the text of a number":  {answer(200, `{"a": 1}`), answer(200, `{"a": 1.0}`), [][3]string{{"body .a", "1", "1.0"}}},
		"a key":                 {answer(200, `{"a": {"b": null}}`), answer(200, `{"a": {"c": 1}}`), [][3]string{{"body .a.b", "null", "absent"}, {"body .a.c", "absent", "1"}}},
		"an order":              {answer(200, `{"a": [1, 2]}`), answer(200, `{"a": [2, 1]}`), [][3]string{{"order .a", "[1,2]", "[2,1]"}}},
		"a length":              {answer(200, `[1]`), answer(200, `[]`), [][3]string{{"body ", "1 items: [1]", "0 items: []"}}},
		"a status":              {answer(404, `{"text": "x"}`), answer(200, `{"a": 1}`), [][3]string{{"status", "404 x", "200 "}}},
		"a text":                {answer(404, `{"text": "x", "a": 1}`), answer(404, `{"text": "y", "a": 2}`), [][3]string{{"text", "404 x", "404 y"}, {"body .a", "1", "2"}}},
		"a header":              {answer(200, "", "Vary", "A, b"), answer(200, "", "X", "y"), [][3]string{{"header Vary", "a, b", ""}, {"header X", "", "y"}}},
		"the order of a header": {answer(200, "", "Vary", "A, b"), answer(200, "", "Vary", "b,a"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got [][3]string
			for _, d := range compare.Differences("GET /", test.theirs, test.ours) {
				got = append(got, [3]string{d.Part, d.Real, d.Ours})
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
