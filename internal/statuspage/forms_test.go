package statuspage_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/internal/statuspage"
)

// post sends a form of the page.
func post(t *testing.T, w *world, query string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/_sim/"+query, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	statuspage.New(w).Routes()["POST /_sim/{$}"](answer, r)
	return answer
}

func TestFaultsAreSetAndRemovedWithForms(t *testing.T) {
	t.Parallel()
	w := small()
	first := w.faults[0].Rule
	answer := post(t, w, "?hosts=cn1", url.Values{
		"do": {"set-fault"}, "operation": {string(fault.ARQBind)}, "action": {"status"}, "status": {"503"}, "times": {"-1"}, "when": {"after"}, "subject": {"3f"}, "delay": {""},
	})
	if to := answer.Header().Get("Location"); answer.Code != http.StatusSeeOther || to != "/_sim/?hosts=cn1#faults" {
		t.Errorf("set: %d to %s", answer.Code, to)
	}
	want := []fault.State{{Rule: first, Hits: 2}, {Rule: fault.Rule{Operation: fault.ARQBind, Action: fault.Status, Status: 503, Times: -1, When: fault.After, Subject: "3f"}}}
	if diff := cmp.Diff(want, w.faults); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	text := show(t, w, "?part=faults")
	checkTexts(t, "the section", text, []string{"<option>" + string(fault.MdevCreate), "<option>reboot"}, nil)
	_, value, _ := strings.Cut(text, `name="rule" value="`)
	value, _, _ = strings.Cut(value, `"`)
	post(t, w, "", url.Values{"do": {"remove-fault"}, "rule": {strings.ReplaceAll(value, "&#34;", `"`)}})
	if diff := cmp.Diff(want[1:], w.faults); diff != "" {
		t.Errorf("after a removal (-want +got):\n%s", diff)
	}
}

func TestFormsThatAreRefusedChangeNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		form url.Values
		want string
	}{
		{url.Values{}, "does not say what to do"},
		{url.Values{"do": {"advance"}, "by": {"soon"}}, `by: "soon" is not a duration`},
		{url.Values{"do": {"advance"}, "by": {"-1s"}}, "is not a duration"},
		{url.Values{"do": {"advance"}, "by": {"1s"}}, "not a manual clock"},
		{url.Values{"do": {"set-fault"}, "operation": {"a.b"}, "action": {"drop"}}, "unknown operation a.b"},
		{url.Values{"do": {"set-fault"}, "operation": {string(fault.ARQBind)}, "action": {"explode"}}, "explode"},
		{url.Values{"do": {"set-fault"}, "operation": {string(fault.ARQBind)}, "action": {"status"}, "status": {"many"}}, `status: "many" is not a whole number`},
		{url.Values{"do": {"remove-fault"}, "rule": {"{"}}, "not a list of rules"},
		{url.Values{"do": {"set-fault"}, "subject": {strings.Repeat("x", 100_000)}}, "too large"},
	} {
		w := small()
		before := fmt.Sprint(w.faults)
		if answer := post(t, w, "", tt.form); answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), tt.want) {
			t.Errorf("%v: %d %s, want %q", tt.form.Get("do"), answer.Code, answer.Body, tt.want)
		}
		if after := fmt.Sprint(w.faults); after != before || w.advanced != 0 {
			t.Errorf("%v changed %s into %s", tt.form, before, after)
		}
	}
}

func TestAManualClockIsAdvancedWithAForm(t *testing.T) {
	t.Parallel()
	w := small()
	w.manual = true
	checkTexts(t, "the page", show(t, w, ""), []string{"(manual clock)", `<form method="post" action="?#now">`, `value="advance"`}, nil)
	if answer := post(t, w, "", url.Values{"do": {"advance"}, "by": {"1m30s"}}); answer.Code != http.StatusSeeOther || w.advanced != 90*time.Second {
		t.Errorf("%d, advanced by %v", answer.Code, w.advanced)
	}
}

// The query is the one that Nova sends.
func TestAQuestionIsBuiltByChoosing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ chosen, want string }{
		{"flavor=small", "resources=VCPU%3A1"},
		{"flavor=accel", "PGPU%3A1"},
		{"flavor=accel&profile=fpga", "FPGA%3A1"},
		{"profile=gpu&query=%3Flimit%3D5%26", "&limit=5"},
		{"query=resources%3DVCPU:9", "resources=VCPU:9"},
	} {
		w := small()
		text := show(t, w, "?part=explain&"+tt.chosen)
		if !strings.Contains(w.asked, tt.want) {
			t.Errorf("%s asks %s, want %s", tt.chosen, w.asked, tt.want)
		}
		checkTexts(t, tt.chosen, text, []string{"0 of 2 hosts are candidates", "host cn0: no inventory"}, []string{`type="hidden" name="flavor"`})
	}
	w := small()
	checkTexts(t, "no question", show(t, w, "?part=explain&hosts=cn1"), []string{"<option>accel", "<option>fpga", `name="hosts" value="cn1"`}, []string{"candidates."})
	if w.asked != "" {
		t.Errorf("asked %s without a question", w.asked)
	}
	checkTexts(t, "a bad one", show(t, w, "?part=explain&query=bad"), []string{"bad &lt;query&gt;"}, []string{"candidates."})
	checkTexts(t, "an unknown profile", show(t, w, "?part=explain&profile=none"), []string{`class="leaks"`}, []string{"candidates."})
}

func TestUnrecognizedInputIsShown(t *testing.T) {
	t.Parallel()
	w := small()
	w.unknown = []statuspage.Unrecognized{{Operation: "accelerator.arq.create", What: "body <b>", From: "sdk", Count: 7}}
	checkTexts(t, "the section", show(t, w, "?part=unrecognized"), []string{"<code>body &lt;b&gt;</code>", "<td>7</td>", "<td>sdk</td>"}, nil)
}
