//go:build oracle

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
	return r.method == "GET" && r.path() == "/allocation_candidates"
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
// Bodies of limited lists of candidates are left to [compareLimited].
func compareAnswers(req oracleRequest, theirs, ours answer) string {
	want, got := essence(req, theirs), essence(req, ours)
	difference := cmp.Diff(want, got)
	missing := missingFragments(req, theirs.body, ours.body)
	if difference == "" && missing == nil {
		return ""
	}
	if missing != nil {
		difference += fmt.Sprintf("our error lacks %q\n", missing)
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
		"allow":      slices.Sorted(strings.SplitSeq(strings.ReplaceAll(a.header.Get("Allow"), " ", ""), ",")),
	}
	if a.status < 300 {
		// The real service forgets it on errors that leave a handler as
		// exceptions, which no client can mind.
		parts["vary"] = strings.ToLower(a.header.Get("Vary"))
	}
	if req.method != http.MethodHead && !req.limited() || a.status >= 300 {
		parts["body"] = canonicalBody(a)
	}
	if req.method == http.MethodHead {
		delete(parts, "body")
	} else {
		parts["type"] = mediaType(a)
	}
	return parts
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

// canonicalBody is a JSON body with lists of no order sorted, and without what
// is another each time. Error texts are left to [missingFragments]. Of other
// bodies it matters only whether there is one.
func canonicalBody(a answer) any {
	var value any
	if json.Unmarshal([]byte(a.body), &value) != nil {
		return a.body != ""
	}
	if a.status >= 400 {
		for _, item := range array(object(value)["errors"]) {
			delete(object(item), "request_id")
			delete(object(item), "detail")
		}
		delete(object(value), "message") // of a 401
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

// compareLimited judges lists of candidates that were cut: as many as the real
// service lists, all of them among those of the full list, which is equal, and
// summaries for the providers they name, as in the full list.
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
	summaries, full := object(listed["provider_summaries"]), object(all["provider_summaries"])
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

// errorFragments are the parts of error texts that the service's own tests
// look for, or that say what was wrong with which value.
var errorFragments = []*regexp.Regexp{
	regexp.MustCompile(`^The resource could not be found\.`),
	regexp.MustCompile(`The method \w+ is not allowed for this resource`),
	regexp.MustCompile(`The media type \S+ is not supported, use application/json`),
	regexp.MustCompile(`Only application/json is provided`),
	regexp.MustCompile(`content-type header required`),
	regexp.MustCompile(`invalid version string: [^\s;]+|Unacceptable version header: \S+`),
	regexp.MustCompile(`Malformed JSON:|JSON does not validate:|Invalid query string parameters:`),

	regexp.MustCompile(`Failed validating '(minimum|maximum|required|additionalProperties|type|pattern|format|minLength|maxLength|minItems|minProperties|uniqueItems|enum)' in schema`),
	regexp.MustCompile(`Failed validating '\w+' in schema\['properties'\]\['(total|min_unit|max_unit|step_size)'\]`),
	regexp.MustCompile(`\S+ is less than the minimum of \d+`),
	regexp.MustCompile(`is a required property`),
	regexp.MustCompile(`Additional properties are not allowed \(.* unexpected\)`),
	regexp.MustCompile(`(('[^']*'(, )?)+) do(es)? not match any of the regexes: ('[^']*'(, )?)+`),
	regexp.MustCompile(`'[^' ]*' is not of type '\w+' `),
	regexp.MustCompile(`'[^' ]*' is not a 'uuid'`),
	regexp.MustCompile(`'[^' ]*' does not match '[^']*'`),
	regexp.MustCompile(`has non-unique elements|should be non-empty|does not have enough properties`),
	regexp.MustCompile(`'\w*' is not one of \['none', 'isolate'\]`),

	regexp.MustCompile(`parent provider UUID (does not exist|cannot be same as UUID)|Unable to create resource provider "`),
	regexp.MustCompile(`Conflicting resource provider .* already exists`),
	regexp.MustCompile(`(re|un)-parenting a provider is not currently allowed|creating loop in the provider tree is not allowed`),
	regexp.MustCompile(`No resource provider with uuid \S+ found( for delete)?`),
	regexp.MustCompile(`Unable to delete (parent )?resource provider \S+: .*\.`),
	regexp.MustCompile(`resource provider generation conflict|Update conflict|greater than( or equal to)? total`),
	regexp.MustCompile(`Unable to (create|update) inventory for resource provider \S+`),
	regexp.MustCompile(`No such resource class \w+|No such resource class|Unknown resource class in inventory|No inventory record with resource class`),
	regexp.MustCompile(`Inventory for '[^']*' on resource provider '[^']*' in use|No inventory of class \w+ (found for delete|for \S+)`),
	regexp.MustCompile(`Please update the generation and try again`),
	regexp.MustCompile(`The query parameter "associated" only accepts "true" or "false"|Badly formatted name parameter\..*`),
	regexp.MustCompile(`The trait is invalid\. A valid trait must be.*|Cannot delete standard trait|The trait \w+ is in use by a resource provider`),
	regexp.MustCompile(`Conflicting resource class already exists: \w+|Resource class already exists: \w+|Cannot update standard resource class \w+|Class is in use in inventory`),

	regexp.MustCompile(`consumer generation conflict - expected \w+ but got (\d{1,9}\b|None)|Malformed consumer_uuid`),
	regexp.MustCompile(`Allocation for resource provider '[^']*' that does not exist|No allocations for consumer '[^']*'`),
	regexp.MustCompile(`Unable to allocate inventory( for consumer)?|would violate inventory constraints|The requested amount would exceed the capacity`),
	regexp.MustCompile(`Inventory for '\w+' on`),
	regexp.MustCompile(`actual: \d+, given: \d+`),

	regexp.MustCompile(`'resources' is a required property|At least one request group`),
	regexp.MustCompile(`Found the following orphaned (traits|member_of) keys: .*`),
	regexp.MustCompile(`All member_of parameters must be associated with resources|All request groups must specify resources`),
	regexp.MustCompile(`There must be at least one resources or|Resourceless suffixed group request should be specified in|Real suffixes should be specified in`),
	regexp.MustCompile(`Empty string \(unsuffixed group\) can not be specified|The "group_policy" parameter is required`),
	regexp.MustCompile(`Badly formed resources parameter.*|Requested resource \w* (expected positive integer amount|requires amount >= 1)\. Got: .*`),
	regexp.MustCompile(`Got an empty trait in`),
	regexp.MustCompile(`Invalid resource class in resources parameter`),
	regexp.MustCompile(`Expected 'required' parameter value of the form: (HW_CPU_X86_VMX,!?CUSTOM_MAGIC\.)?|only supported since microversion 1\.39|does not support forbidden traits`),
	regexp.MustCompile(`Conflicting required and forbidden traits found in`),
	regexp.MustCompile(`Query parameter 'root_required' may be specified only once|Expected '(member_of|in_tree)' parameter to`),
	regexp.MustCompile(`Multiple values for 'member_of' must be prefixed|(Multiple|Forbidden) member_of\w* parameters are not supported`),
}

// missingFragments lists the parts that the real error text has and ours has
// not.
func missingFragments(req oracleRequest, theirs, ours string) []string {
	if req.faults > 1 {
		return nil
	}
	// The real service takes everything that looks like HTML out of its texts.
	want, got := detailOf(theirs), regexp.MustCompile(`<[^>]*>`).ReplaceAllString(detailOf(ours), "")
	if text, _, cut := strings.Cut(want, " found for delete: "); cut {
		want = text // the cause after it is of no use to a client
	}
	if allocationRefusal.MatchString(want) && allocationRefusal.MatchString(got) && severalFaults(req) {
		return nil
	}
	var missing []string
	for _, fragment := range errorFragments {
		for _, text := range fragment.FindAllString(want, -1) {
			if !strings.Contains(got, text) {
				missing = append(missing, text)
			}
		}
	}
	return missing
}

// allocationRefusal is why an allocation may be refused. Of several reasons in
// one request the real service gives the first in the order of the JSON text,
// which is no order to a client.
var allocationRefusal = regexp.MustCompile(`Unable to allocate inventory: (Inventory for '\w+' on|.* would violate inventory constraints|.* would exceed the capacity)`)

// severalFaults reports whether a request names more than one resource.
func severalFaults(req oracleRequest) bool {
	return strings.Count(req.body, `"resources":`) > 1 || regexp.MustCompile(`"resources":\{[^}]*,`).MatchString(req.body)
}

func detailOf(body string) string {
	var value any
	if json.Unmarshal([]byte(body), &value) != nil {
		return ""
	}
	for _, item := range array(object(value)["errors"]) {
		return strings.Join(strings.Fields(text(object(item)["detail"])), " ")
	}
	return ""
}
