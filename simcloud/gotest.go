package simcloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"go/token"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/fault"
)

// ErrReplay is matched by the error about a cloud of which no test can be made.
var ErrReplay = errors.New("simcloud: cannot be replayed")

// goTestHead is everything of the test but its data.
const goTestHead = `import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// request is one request of the record: when it was sent after the first one, whose
// tokens it carried (user/project; ? stands for one that is not valid), and what came of
// it.
type request struct {
	at                           time.Duration
	method, target               string
	login, serviceLogin, subject string
	header                       map[string]string
	body                         string
	status                       int // 0: no answer
	microversion                 string
}

// TestRecordedRequests sends the requests of the record to a cloud of the same model, at
// the same times, and expects the same statuses and microversions.
func TestRecordedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model, err := simcloud.ParseModel([]byte(model))
		if err != nil {
			t.Fatal(err)
		}
		cloud, err := simcloud.New(t.Context(), model%s)
		if err != nil {
			t.Fatal(err)
		}
		defer cloud.Close()
		var rules []fault.Rule
		if err := json.Unmarshal([]byte(faults), &rules); err != nil {
			t.Fatal(err)
		}
		if err := cloud.Faults().Set(rules...); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i, r := range requests() {
			time.Sleep(time.Until(began.Add(r.at)))
			synctest.Wait()
			if got := r.send(t, cloud); got != r.outcome() {
				t.Errorf("request %%d, %%s %%s: got %%s, want %%s", i+1, r.method, r.target, got, r.outcome())
			}
		}
	})
}

func (r request) outcome() string { return fmt.Sprintf("%%d %%s", r.status, r.microversion) }

// tokenOf stands in a body for the token of a login.
var tokenOf = regexp.MustCompile(` + "`\\[token of ([^\\]]*)\\]`" + `)

// send sends the request and tells what came of it.
func (r request) send(t *testing.T, cloud *simcloud.Cloud) string {
	t.Helper()
	body := tokenOf.ReplaceAllStringFunc(r.body, func(text string) string { return token(t, cloud, tokenOf.FindStringSubmatch(text)[1]) })
	req, err := http.NewRequestWithContext(t.Context(), r.method, cloud.URL()+r.target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, login := range map[string]string{"X-Auth-Token": r.login, "X-Service-Token": r.serviceLogin, "X-Subject-Token": r.subject} {
		if login != "" {
			req.Header.Set(name, token(t, cloud, login))
		}
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	res, err := (&http.Client{Transport: cloud.Transport()}).Do(req)
	if err != nil {
		return request{}.outcome()
	}
	defer res.Body.Close()
	got := request{status: res.StatusCode}
	if r.microversion != "" {
		words := strings.Fields(res.Header.Get("OpenStack-API-Version"))
		if len(words) > 0 {
			got.microversion = words[len(words)-1]
		}
	}
	return got.outcome()
}

// token is a new token of a login.
func token(t *testing.T, cloud *simcloud.Cloud, login string) string {
	t.Helper()
	if login == "?" {
		return "not-valid"
	}
	user, project, _ := strings.Cut(login, "/")
	text, err := cloud.TokenFor(user, project)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
`

// WriteGoTest writes a Go test file of a package of that name, which has to be an
// identifier. Its one test makes a cloud of the same model and fault rules, sends the
// requests of the record to it that came from outside, in order and, inside a bubble of
// testing/synctest, with the same pauses, and expects the same statuses and microversions.
// Identifiers depend on the model's seed only, so those that the cloud made are the same
// again, as long as the requests were not sent in parallel. Tokens are those of the same
// users ([Cloud.TokenFor]); passwords are those of the model.
//
// What is not a request is not in the record: calls of this package, requests below /_sim/,
// hosts that went away. Requests whose body is not kept are left out, with a comment. The
// error is that of w, or matches [ErrReplay] for a bad name and for a cloud that stands on
// something that a test has not: an external Placement.
func (c *Cloud) WriteGoTest(w io.Writer, pkg string) error {
	switch {
	case !token.IsIdentifier(pkg) || pkg == "_":
		return fmt.Errorf("%w: %q is no name of a package", ErrReplay, pkg)
	case c.external != nil:
		return fmt.Errorf("%w: its Placement is external", ErrReplay)
	}
	requests, missing := c.sentRequests()
	var b bytes.Buffer
	b.WriteString("// Written from the record of a simulated cloud.\n")
	if missing {
		b.WriteString("// The record does not begin with the cloud's first request.\n")
	}
	if c.loaded.Load() {
		b.WriteString("// The cloud had loaded a state, which is not in here: what this test makes is new.\n")
	}
	for _, h := range c.model.Hosts {
		if h.Sysfs != nil && h.Sysfs.Dir != "" {
			fmt.Fprintf(&b, "// Host %s reads the hardware below %s.\n", strconv.Quote(h.Name), strconv.Quote(h.Sysfs.Dir))
		}
	}
	option := ""
	if c.agentLoop {
		option = ", simcloud.WithAgentLoop()"
	}
	fmt.Fprintf(&b, "\npackage %s\n\n"+goTestHead, pkg, option)
	if err := c.writeGoData(&b, requests); err != nil {
		return err
	}
	text, err := format.Source(b.Bytes())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReplay, err)
	}
	_, err = w.Write(text)
	return err
}

// writeGoData writes the world, the faults and the requests.
func (c *Cloud) writeGoData(b *bytes.Buffer, requests []sentRequest) error {
	model, err := json.MarshalIndent(c.model, "", "\t")
	if err != nil {
		return fmt.Errorf("%w: the model: %w", ErrReplay, err)
	}
	rules := []fault.Rule{}
	for _, r := range c.faults.Rules() {
		rules = append(rules, r.Rule)
	}
	faults, err := json.MarshalIndent(rules, "", "\t")
	if err != nil {
		return fmt.Errorf("%w: the fault rules: %w", ErrReplay, err)
	}
	fmt.Fprintf(b, "\nfunc requests() []request {\nreturn []request{\n")
	for _, r := range requests {
		b.WriteString(c.goRequest(r))
	}
	fmt.Fprintf(b, "}\n}\n\n// faults are the rules that were in force.\nconst faults = %s\n\n// model is the cloud.\nconst model = %s\n",
		goText(string(faults)), goText(string(model)))
	return nil
}

// goRequest is a request as an item of the list, or a comment.
func (c *Cloud) goRequest(r sentRequest) string {
	body, why := r.Sent.Body, r.lost
	if why == "" && r.isLogin() {
		var ok bool
		if body, ok = c.withPassword(body); !ok {
			why = "its secret is not kept"
		}
	}
	if why != "" {
		return fmt.Sprintf("// left out: %s %s: %s\n", strconv.Quote(r.Method), strconv.Quote(r.Path), why)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "{\nat: %d, method: %s, target: %s,\n", r.at, strconv.Quote(r.Method), strconv.Quote(r.target))
	for _, login := range []struct{ name, value string }{
		{"login", r.Sent.Login}, {"serviceLogin", r.Sent.ServiceLogin}, {"subject", r.Sent.SubjectLogin},
	} {
		if login.value != "" {
			fmt.Fprintf(&b, "%s: %s, ", login.name, strconv.Quote(login.value))
		}
	}
	if len(r.Sent.Header) > 0 {
		b.WriteString("header: map[string]string{")
		for _, name := range slices.Sorted(maps.Keys(r.Sent.Header)) {
			fmt.Fprintf(&b, "%s: %s, ", strconv.Quote(name), strconv.Quote(r.Sent.Header[name]))
		}
		b.WriteString("},\n")
	}
	if body != "" {
		fmt.Fprintf(&b, "body: %s,\n", goText(body))
	}
	fmt.Fprintf(&b, "status: %d, microversion: %s,\n},\n", r.Status, strconv.Quote(r.Microversion))
	return b.String()
}

// goText is a text as a literal, raw where that is possible.
func goText(text string) string {
	if strconv.CanBackquote(strings.ReplaceAll(text, "\n", " ")) {
		return "`" + text + "`"
	}
	return strconv.Quote(text)
}

// TokenFor returns a token of a user on a project without a request: for the whole system
// if the project is *, without a scope if it is empty. The error is for a user that is not
// there or has no role there.
func (c *Cloud) TokenFor(user, project string) (string, error) {
	text, err := c.identity.IssueLogin(user + "/" + project)
	if err != nil {
		return "", fmt.Errorf("simcloud: token: %w", err)
	}
	return text, nil
}

// getGoTest answers the test; the query names its package.
func (c *Cloud) getGoTest(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("package")
	if name == "" {
		name = "replay_test"
	}
	var b bytes.Buffer
	err := c.WriteGoTest(&b, name)
	switch {
	case errors.Is(err, ErrReplay):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		writePlain(w, b.Bytes())
	}
}
