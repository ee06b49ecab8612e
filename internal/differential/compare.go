package differential

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// What is another one in each answer is replaced before answers are compared. A Keystone may be at /identity.
var (
	uuidForm   = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`)
	requestID  = regexp.MustCompile(`req-` + uuidForm.String())
	hexForm    = regexp.MustCompile(`\b[0-9a-f]{32}\b`)
	timeForm   = regexp.MustCompile(`\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?`)
	serverForm = regexp.MustCompile(`http://(127\.0\.0\.1(:\d+)?|[a-z.]+\.(example|test|invalid)(:\d+)?)(/identity)?`)
	auditForm  = regexp.MustCompile(`^[\w-]{22}$`)
)

// settled is a text without what the service made up.
func settled(text string, known func(string) bool) string {
	text = requestID.ReplaceAllString(text, "REQUEST-ID")
	unknown := func(id string) string {
		if known(id) {
			return id
		}
		return "ID"
	}
	text = uuidForm.ReplaceAllStringFunc(text, unknown)
	text = hexForm.ReplaceAllStringFunc(text, unknown)
	text = timeForm.ReplaceAllStringFunc(text, func(found string) string {
		parts := timeForm.FindStringSubmatch(found)
		fraction := ""
		if parts[2] != "" {
			fraction = ".f"
		}
		return "TIME" + parts[1] + fraction + parts[3]
	})
	return serverForm.ReplaceAllString(text, "http://HOST")
}

// SameText marks a difference in status between answers whose errors have one text.
const SameText = "same text"

// Answer is the answer of a service to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Comparison compares the answers of a real service with ours. Times, request ids and the address of the server are not
// compared, nor identifiers that the services made up.
type Comparison struct {
	// Known reports whether the generator of requests knows an identifier, so that it is compared.
	Known func(id string) bool
	// Number reports whether numbers under a key are made up by the service. Nil: none is.
	Number func(key string) bool
	// Text takes the text out of the decoded body of an error, and returns it and the rest.
	Text func(body any) (text string, rest any)
	// Opened decodes strings under a key that are JSON themselves. Nil: none is.
	Opened func(key, value string) (any, bool)
}

// Differences compares two answers to a request. The request is the text that Difference.Request has.
func (c Comparison) Differences(request string, theirs, ours Answer) []Difference {
	var list []Difference
	add := func(part, theirs, ours string) {
		list = append(list, Difference{Request: request, Part: part, Real: clip(theirs), Ours: clip(ours)})
	}
	want, got := c.decode(theirs), c.decode(ours)
	wantText, wantRest := c.errorOf(theirs, want)
	gotText, gotRest := c.errorOf(ours, got)
	if theirs.Status != ours.Status {
		add("status", fmt.Sprintf("%d %s", theirs.Status, wantText), fmt.Sprintf("%d %s", ours.Status, gotText))
		if wantText == gotText {
			list[0].Marks = []string{SameText}
		}
		return list
	}
	for _, name := range headerNames(theirs.Header, ours.Header) {
		if a, b := c.headerValue(theirs, name), c.headerValue(ours, name); a != b {
			add("header "+name, a, b)
		}
	}
	if wantText != gotText {
		add("text", fmt.Sprintf("%d %s", theirs.Status, wantText), fmt.Sprintf("%d %s", ours.Status, gotText))
	}
	differing := pathDifferences("", sorted(wantRest), sorted(gotRest))
	for _, d := range differing {
		add("body "+d[0], d[1], d[2])
	}
	if len(differing) == 0 {
		for _, d := range orderDifferences("", wantRest, gotRest) {
			add("order "+d[0], d[1], d[2])
		}
	}
	return unique(list)
}

// clip shortens what no pattern needs whole: the end says what a long text is about.
func clip(text string) string {
	const begin, end = 600, 300
	if len(text) > begin+end {
		return text[:begin] + "..." + text[len(text)-end:]
	}
	return text
}

func unique(list []Difference) []Difference {
	seen := make(map[string]bool)
	return slices.DeleteFunc(list, func(d Difference) bool {
		key := d.Part + "\x00" + d.Real + "\x00" + d.Ours
		if seen[key] {
			return true
		}
		seen[key] = true
		return false
	})
}

// decode is the body as JSON without what the service made up, or as text.
func (c Comparison) decode(a Answer) any {
	text := settled(a.Body, c.Known)
	var value any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber() // 2 is not 2.0
	if decoder.Decode(&value) != nil || !errors.Is(decoder.Decode(new(any)), io.EOF) {
		return text
	}
	return c.mask("", value)
}

// mask replaces numbers that the service made up, and opens strings that are JSON.
func (c Comparison) mask(key string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		for k, item := range value {
			value[k] = c.mask(k, item)
		}
	case []any:
		for i, item := range value {
			value[i] = c.mask(key, item)
		}
	case json.Number:
		if c.Number != nil && c.Number(key) {
			return "NUMBER"
		}
	case string:
		if auditForm.MatchString(value) && key == "audit_ids" {
			return "AUDIT"
		}
		if c.Opened == nil {
			break
		}
		if opened, ok := c.Opened(key, value); ok {
			return c.mask("", opened)
		}
	}
	return value
}

func (c Comparison) errorOf(a Answer, body any) (text string, rest any) {
	if a.Status < 400 {
		return "", body
	}
	if text, ok := body.(string); ok {
		return text, nil
	}
	return c.Text(body)
}

// unjudged are headers of the HTTP server, or with another value each time.
var unjudged = []string{"Date", "Server", "Connection", "Keep-Alive", "Via", "Transfer-Encoding"}

func headerNames(theirs, ours http.Header) []string {
	names := slices.Collect(maps.Keys(theirs))
	names = slices.AppendSeq(names, maps.Keys(ours))
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(unjudged, name) })
	slices.Sort(names)
	return slices.Compact(names)
}

// headerValue is the value of a header for comparison, "" for none.
func (c Comparison) headerValue(a Answer, name string) string {
	values, ok := a.Header[name]
	if !ok {
		return ""
	}
	switch name {
	case "Content-Length":
		if a.Status == http.StatusNoContent {
			return "" // servers differ
		}
		return "given"
	case "X-Subject-Token":
		return "given"
	case "Vary", "Allow":
		fields := strings.Split(strings.ToLower(strings.ReplaceAll(strings.Join(values, ","), " ", "")), ",")
		slices.Sort(fields)
		return strings.Join(fields, ", ")
	case "Content-Type":
		return strings.ToLower(strings.ReplaceAll(strings.Join(values, ", "), " ", ""))
	case "Last-Modified":
		return "given"
	}
	return settled(strings.Join(values, ", "), c.Known)
}

// sorted is a value with all lists sorted.
func sorted(value any) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any)
		for k, item := range value {
			out[k] = sorted(item)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			out[i] = sorted(item)
		}
		slices.SortFunc(out, func(a, b any) int {
			return cmp.Or(strings.Compare(nameOf(a), nameOf(b)), strings.Compare(asJSON(a), asJSON(b)))
		})
		return out
	}
	return value
}

// nameOf identifies an item of a list, so that corresponding items are compared.
func nameOf(item any) string {
	fields, _ := item.(map[string]any)
	name := ""
	for _, key := range []string{"uuid", "id", "name", "key"} {
		if text, ok := fields[key].(string); ok {
			name += text + " "
		}
	}
	return name
}

func asJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// orderDifferences lists the lists that have the same items in another order, with their items. The values are equal
// otherwise.
func orderDifferences(path string, theirs, ours any) [][3]string {
	var list [][3]string
	switch theirs := theirs.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(theirs)) {
			list = append(list, orderDifferences(path+"."+key, theirs[key], ours.(map[string]any)[key])...)
		}
	case []any:
		for i, item := range ours.([]any) {
			if asJSON(sorted(item)) != asJSON(sorted(theirs[i])) {
				return [][3]string{{path, asJSON(theirs), asJSON(ours)}}
			}
		}
		for i, item := range ours.([]any) {
			list = append(list, orderDifferences(path+"[]", theirs[i], item)...)
		}
	}
	return list
}

// pathDifferences lists the places at which two values differ, each with the values.
func pathDifferences(path string, theirs, ours any) [][3]string {
	switch theirs := theirs.(type) {
	case map[string]any:
		ours, ok := ours.(map[string]any)
		if !ok {
			break
		}
		var list [][3]string
		keys := slices.AppendSeq(slices.Collect(maps.Keys(theirs)), maps.Keys(ours))
		slices.Sort(keys)
		for _, key := range slices.Compact(keys) {
			a, inTheirs := theirs[key]
			b, inOurs := ours[key]
			switch at := path + "." + key; {
			case !inTheirs:
				list = append(list, [3]string{at, "absent", asJSON(b)})
			case !inOurs:
				list = append(list, [3]string{at, asJSON(a), "absent"})
			default:
				list = append(list, pathDifferences(at, a, b)...)
			}
		}
		return list
	case []any:
		ours, ok := ours.([]any)
		if !ok {
			break
		}
		if len(theirs) != len(ours) {
			return [][3]string{{path, fmt.Sprintf("%d items: %s", len(theirs), asJSON(theirs)), fmt.Sprintf("%d items: %s", len(ours), asJSON(ours))}}
		}
		var list [][3]string
		for i := range theirs {
			list = append(list, pathDifferences(path+"[]", theirs[i], ours[i])...)
		}
		return list
	}
	if a, b := asJSON(theirs), asJSON(ours); a != b {
		return [][3]string{{path, a, b}}
	}
	return nil
}
