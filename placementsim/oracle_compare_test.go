//go:build oracle || differential

package placementsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/schema"
)

// oracleRequest is one request to both services.
type oracleRequest struct {
	method, target, body string // target is path and query, as they are sent
	header               [][2]string
	invents              bool // success makes a uuid up
	// faults counts what was made wrong on purpose. Which of several faults an
	// error names depends on the order of keys and of checks, so texts are only
	// compared when there is one at most.
	faults int
}

func (r oracleRequest) path() string  { path, _, _ := strings.Cut(r.target, "?"); return path }
func (r oracleRequest) query() string { _, query, _ := strings.Cut(r.target, "?"); return query }

func (r oracleRequest) isCandidates() bool {
	path, err := url.PathUnescape(r.path())
	return r.method == "GET" && err == nil && path == "/allocation_candidates"
}

// limited reports whether only some of the candidates are asked for.
func (r oracleRequest) limited() bool {
	return r.isCandidates() && parseQuery(r.query()).has("limit")
}

// unlimited is the request for all candidates.
func (r oracleRequest) unlimited() oracleRequest {
	pairs := slices.DeleteFunc(strings.Split(r.query(), "&"), func(pair string) bool { return strings.HasPrefix(pair, "limit=") })
	r.target = r.path() + "?" + strings.Join(pairs, "&")
	return r
}

// curl is a command that sends the request.
func (r oracleRequest) curl() string {
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
	var b strings.Builder
	fmt.Fprintf(&b, "curl -s -X %s", r.method)
	for _, pair := range r.header {
		fmt.Fprintf(&b, " -H %s", quote(pair[0]+": "+pair[1]))
	}
	if r.body != "" {
		fmt.Fprintf(&b, " --data-binary %s", quote(r.body))
	}
	return b.String() + ` "$URL"` + quote(r.target)
}

// compareAnswers returns how two answers differ in what a client may rely on.
// [compareLimited] compares limited lists of candidates.
func compareAnswers(req oracleRequest, theirs, ours answer) string {
	want, got := essence(req, theirs), essence(req, ours)
	difference := cmp.Diff(want, got)
	if theirs.status == ours.status && theirs.status >= 400 {
		difference += detailDifference(req, theirs.body, ours.body)
	}
	if difference == "" {
		return ""
	}
	return difference + "real body: " + theirs.body + "\nour body:  " + ours.body
}

// essence is what is equal in answers that are equally good.
func essence(req oracleRequest, a answer) map[string]any {
	parts := map[string]any{
		"status":     a.status,
		"version":    a.header.Get("Openstack-Api-Version"),
		"location":   locationPath(a),
		"cache":      a.header.Get("Cache-Control"),
		"modified":   a.header.Get("Last-Modified") != "",
		"request id": a.header.Get("X-Openstack-Request-Id") != "",
		"vary":       strings.ToLower(a.header.Get("Vary")),
		"type":       mediaType(a),
		"allow":      slices.Sorted(strings.SplitSeq(strings.ReplaceAll(a.header.Get("Allow"), " ", ""), ",")),
	}
	if a.status < 300 && strings.Contains(req.path(), "/allocations") {
		parts["order"] = keyOrder(a.body)
	}
	if req.method != http.MethodHead && !req.limited() || a.status >= 300 {
		parts["body"] = canonicalBody(a)
	}
	if req.method == http.MethodHead {
		delete(parts, "body")
	}
	return parts
}

// keyOrder is a body with the order of its keys, which is that in which allocations were made.
func keyOrder(body string) string {
	value, err := schema.Decode([]byte(body))
	if err != nil {
		return ""
	}
	inner := object(value).Get("allocations")
	return schema.Repr(inner)
}

func mediaType(a answer) string {
	text := a.header.Get("Content-Type")
	if text == "" || a.status < 300 {
		return text
	}
	name, _, err := mime.ParseMediaType(text)
	if err != nil {
		return text
	}
	return name
}

// locationPath is the location without scheme and host.
func locationPath(a answer) string {
	u, err := url.Parse(a.header.Get("Location"))
	if err != nil {
		return a.header.Get("Location")
	}
	return u.EscapedPath()
}

// canonicalBody is a JSON body with unordered lists sorted, and without values that always
// differ. [detailDifference] compares error texts. For other bodies it is only whether there is
// one.
func canonicalBody(a answer) any {
	var value any
	if json.Unmarshal([]byte(a.body), &value) != nil {
		return a.body != ""
	}
	if a.status >= 400 {
		for _, item := range array(fields(value)["errors"]) {
			delete(fields(item), "request_id")
			delete(fields(item), "detail")
		}
	}
	return canonical("", value)
}

// canonical sorts the lists of a value whose order means nothing: by the key
// they stand under. Providers and resource classes are listed in order.
func canonical(key string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		for k, item := range value {
			within := k
			if key == "mappings" {
				within = key
			}
			value[k] = canonical(within, item)
		}
	case []any:
		for i, item := range value {
			value[i] = canonical("", item)
		}
		switch key {
		case "traits", "aggregates", "allocation_requests", "allocations", "mappings":
			slices.SortFunc(value, func(a, b any) int { return strings.Compare(asJSON(a), asJSON(b)) })
		}
	}
	return value
}

func asJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// compareLimited compares limited lists of candidates. Both services must list the same number,
// all candidates must be in the full lists, which are equal, and the summaries of their providers
// must be the same as in the full lists.
func compareLimited(req oracleRequest, theirs, allReal, ours, allOurs answer) string {
	if difference := compareAnswers(req.unlimited(), allReal, allOurs); difference != "" {
		return "without limit:\n" + difference
	}
	var listed, wanted, all map[string]any
	if err := errors.Join(json.Unmarshal([]byte(ours.body), &listed), json.Unmarshal([]byte(theirs.body), &wanted), json.Unmarshal([]byte(allOurs.body), &all)); err != nil {
		return err.Error()
	}
	if got, want := len(array(listed["allocation_requests"])), len(array(wanted["allocation_requests"])); got != want {
		return fmt.Sprintf("got %d candidates, want %d", got, want)
	}
	known := make(map[string]bool)
	for _, candidate := range array(all["allocation_requests"]) {
		known[asJSON(canonical("", candidate))] = true
	}
	for _, candidate := range array(listed["allocation_requests"]) {
		if text := asJSON(canonical("", candidate)); !known[text] {
			return "not in the full list: " + text
		}
	}
	return compareSummaries(listed, all)
}

func compareSummaries(listed, all map[string]any) string {
	summaries, full := fields(listed["provider_summaries"]), fields(all["provider_summaries"])
	requests := asJSON(listed["allocation_requests"])
	for uuid := range full {
		if _, ok := summaries[uuid]; !ok && strings.Contains(requests, uuid) {
			return "no summary of " + uuid
		}
	}
	for uuid, summary := range summaries {
		if difference := cmp.Diff(canonical("", full[uuid]), canonical("", summary)); difference != "" {
			return "summary of " + uuid + ":\n" + difference
		}
	}
	return ""
}

// detailDifference is the difference between our error text and the real one.
func detailDifference(req oracleRequest, theirs, ours string) string {
	if req.faults > 1 {
		return ""
	}
	want, got := comparable(detailOf(theirs)), comparable(detailOf(ours))
	if allocationRefusal.MatchString(want) && allocationRefusal.MatchString(got) && severalFaults(req) {
		return ""
	}
	if strings.Count(req.body, `"total":`) > 1 { // the real service reports the first in the order of the JSON text
		want, got = faultyInventory.ReplaceAllString(want, "inventory"), faultyInventory.ReplaceAllString(got, "inventory")
	}
	if want == got {
		return ""
	}
	return fmt.Sprintf("real detail: %q\nour detail:  %q\n", want, got)
}

// comparable is a text without what is not to be compared: the words of the database, and
// the order of names that the real service takes from sets.
func comparable(detail string) string {
	detail = lostNumber.ReplaceAllString(detail, "operation.\n\n a number")
	if text, _, found := strings.Cut(detail, "Update conflict: "); found {
		return text
	}
	if text, _, found := strings.Cut(detail, "consumer generation conflict - expected null but got "); found {
		return text // ours is cut off far outside of every generation
	}
	return inOrder(detail)
}

// inOrder is a text with the names of each list in order.
func inOrder(detail string) string {
	return nameLists.ReplaceAllStringFunc(detail, func(list string) string {
		return strings.Join(slices.Sorted(strings.SplitSeq(list, ", ")), ", ")
	})
}

// lostNumber is the whole error about a provider that the real one has not read. Its numbers are given again after deletions.
var lostNumber = regexp.MustCompile(`operation\.\n\n \d+  $`)

// nameLists are names with commas between them, quoted or not.
var nameLists = regexp.MustCompile(`'[\w-]+'(, '[\w-]+')+|[\w-]+(, [\w-]+)+`)

// allocationRefusal is why an allocation may be refused. The real service reports the first of
// several reasons in the order of the JSON text, on which clients cannot rely.
var allocationRefusal = regexp.MustCompile(`Unable to allocate inventory: (Inventory for '[^']+' on|.* would violate inventory constraints|.* would exceed the capacity)`)

var faultyInventory = regexp.MustCompile(`inventory for '\w+'`)

// severalFaults reports whether a request names more than one resource.
func severalFaults(req oracleRequest) bool {
	return strings.Count(req.body, `"resources":`) > 1 || regexp.MustCompile(`"resources":\{[^}]*,`).MatchString(req.body)
}

func detailOf(body string) string {
	var value any
	if json.Unmarshal([]byte(body), &value) != nil {
		return ""
	}
	for _, item := range array(fields(value)["errors"]) {
		return text(fields(item)["detail"])
	}
	return ""
}
