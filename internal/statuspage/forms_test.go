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
	answer := post(t, w, "?hosts=cn1&operation=accelerator.arq.bind", url.Values{
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
	_, value, _ := strings.Cut(text, `name="rule" value="`)
	value, _, _ = strings.Cut(value, `"`)
	post(t, w, "", url.Values{"do": {"remove-fault"}, "rule": {strings.ReplaceAll(value, "&#34;", `"`)}})
	if diff := cmp.Diff(want[1:], w.faults); diff != "" {
		t.Errorf("after a removal (-want +got):\n%s", diff)
	}
}

// A rule form with values.
func ruleForm(pairs ...string) url.Values {
	form := url.Values{"do": {"set-fault"}, "operation": {string(fault.ARQBind)}, "action": {"status"}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

func TestFormsThatAreRefusedChangeNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		form url.Values
		want string
	}{
		{url.Values{}, "does not say what to do"},
		{url.Values{"do": {"advance"}, "by": {"soon"}}, "&#34;soon&#34; is not a duration; enter one such as 90s"},
		{url.Values{"do": {"advance"}, "by": {"-1s"}}, "is not a duration"},
		{url.Values{"do": {"advance"}, "by": {"1s"}}, "not a manual clock"},
		{ruleForm("operation", "a.b"), `<a href="#fault-operation">Operation</a>: &#34;a.b&#34; does not exist; choose one of the list`},
		{ruleForm("operation", ""), "Operation</a>: choose one, such as accelerator.arq.bind"},
		{ruleForm("action", ""), "Action</a>: choose drop, status, delay or late"},
		{ruleForm("action", "reboot"), "Action</a>: accelerator.arq.bind does not have &#34;reboot&#34;; choose drop, status, delay or late"},
		{ruleForm("status", "many"), `<a href="#fault-status">Status</a>: &#34;many&#34; is not a number from 400 to 599`},
		{ruleForm("status", "200"), "is not a number from 400 to 599"},
		{ruleForm("times", "0"), "Times</a>: &#34;0&#34; is not a number from 1, or -1 for always"},
		{ruleForm("delay", "-1s"), "Delay</a>: &#34;-1s&#34; is not a duration such as 20ms"},
		{ruleForm("action", "delay"), "Delay</a>: enter a duration such as 20ms, which the action delay needs"},
		{ruleForm("action", "late", "delay", "1s", "when", "after"), "<li>accelerator.arq.bind: late is before the change, so it cannot be after it</li>"},
		{ruleForm("subject", "refused"), "<li>refused by the cloud</li>"},
		{url.Values{"do": {"remove-fault"}, "rule": {"{"}}, "not a list of rules"},
		{url.Values{"do": {"set-fault"}, "subject": {strings.Repeat("x", 100_000)}}, "too large"},
	} {
		w := small()
		before := fmt.Sprint(w.faults)
		if answer := post(t, w, "", tt.form); answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), tt.want) {
			t.Errorf("%v: %d %s, want %q", tt.form, answer.Code, answer.Body, tt.want)
		}
		if after := fmt.Sprint(w.faults); after != before || w.advanced != 0 {
			t.Errorf("%v changed %s into %s", tt.form, before, after)
		}
	}
}

// A refused form is shown again as it was filled in, on the page that it was sent from.
func TestARefusedFormKeepsItsValues(t *testing.T) {
	t.Parallel()
	answer := post(t, small(), "?hosts=cn1", ruleForm("status", "99", "times", "3", "delay", "1s", "when", "after", "subject", `"><b>`))
	checkTexts(t, "the rule", answer.Body.String(), []string{
		"<h3>cn1</h3>", `<details data-key="set-fault" open>`, `role="alert" id="fault-problems" data-refused>`, `<form method="post" action="?hosts=cn1#operations" class="fields">`,
		`<option value="accelerator.arq.bind" data-actions=" drop status delay late" data-subject="an ARQ" selected>`, "<option selected>status</option>",
		`value="99" size="4" pattern="[45][0-9]{2}" title="a number from 400 to 599" placeholder="503" aria-invalid="true" aria-describedby="fault-problems">`,
		`name="times" id="fault-times" value="3"`, `value="after" selected`, `name="delay" id="fault-delay" value="1s"`, `value="&#34;&gt;&lt;b&gt;"`, `<a href="?hosts=cn1#operations">Discard</a>`,
	}, []string{"<b>", `id="fault-times" value="3" size="4" pattern="-1|[1-9][0-9]*" title="a number from 1, or -1 for always" placeholder="1" aria-invalid`, "do=set-fault"})
	w := small()
	w.manual = true
	checkTexts(t, "the clock", post(t, w, "", url.Values{"do": {"advance"}, "by": {"soon"}}).Body.String(), []string{`#now" data-refused>`, `name="by" value="soon"`}, nil)
}

// The form offers the actions that the chosen operation has. Operations are grouped by their service, and can be searched.
func TestTheOperationsOfAFaultAreFound(t *testing.T) {
	t.Parallel()
	const bind, create, all = `<option value="accelerator.arq.bind"`, `<option value="accelerator.mdev.create"`, `<option value="placement.*"`
	for _, tt := range []struct {
		query            string
		wanted, unwanted []string
	}{
		{"", []string{`<optgroup label="Cyborg (accelerator)">` + bind, create, `<optgroup label="Placement (placement)">` + all, "</optgroup>", `<details data-key="set-fault">`, `id="fault-action" required><option value=""></option></select>`}, nil},
		{"&operations=arq", []string{bind, "open>", "Show all"}, []string{create, all, "Placement ("}},
		{"&operations=create+mdev", []string{create}, []string{bind}},
		{"&operation=accelerator.mdev.create", []string{bind, create + ` data-actions=" reboot" data-subject="a host" selected>`, "<option>reboot</option></select>", `title="a host"`, "open>"}, []string{"<option>drop"}},
		{"&operation=accelerator.mdev.create&operations=bind&do=set-fault&action=reboot", []string{bind, create, "<option selected>reboot</option>"}, []string{`value="set-fault"><input`, `type="hidden" name="operations"`}},
		{"&operation=a.b", []string{`id="fault-action" required><option value=""></option></select>`}, nil},
	} {
		checkTexts(t, tt.query, show(t, small(), "?part=operations"+tt.query), tt.wanted, tt.unwanted)
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

// The query is Nova's.
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
