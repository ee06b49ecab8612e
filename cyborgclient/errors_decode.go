package cyborgclient

import (
	"bytes"
	"encoding/json"
	"html"
	"regexp"
	"strings"
)

// fault is a decoded error body.
type fault struct{ code, title, detail string }

// detailLimit bounds the message kept from an error body, in bytes. A traceback
// of the conductor fits.
const detailLimit = 8 << 10

// decodeFault reads an error body. Cyborg's middleware rewrites every error of
// its API to {"error_message": ORIGINAL} (cyborg/api/middleware/parsable_error.py),
// where the original is a text that holds JSON up to 2026.2, and JSON after it:
//
//   - WSME's fault: {"faultcode", "faultstring", "debuginfo"};
//   - the router's: {"code", "title", "description"}, or HTML or plain text,
//     depending on the Accept header, which is a text in every release;
//   - null for the 423 of unresolved ARQs.
//
// Authentication failures come from keystonemiddleware without that wrapper:
// {"error": {"code", "title", "message"}}. Proxies answer in HTML, and some
// OpenStack services with {"errors": [...]}. Any other body is plain text.
func decodeFault(body []byte) fault {
	f := decodeFaultJSON(body, 0)
	f.title, f.detail = clip(f.title, 200), clip(f.detail, detailLimit)
	return f
}

// isCyborgNotFound reports whether the body of a 404 says that Cyborg does not know the resource.
// Such a message is wrapped. The router's 404 for an unknown path has a title, and the 404 of a
// proxy without a backend is not wrapped.
func isCyborgNotFound(body []byte) bool {
	var wrapper faultBody
	if json.Unmarshal(body, &wrapper) != nil {
		return false
	}
	f := decodeFault(wrapper.ErrorMessage)
	return f.title == "" && f.detail != ""
}

// faultBody is the union of the members that carry a message.
type faultBody struct {
	ErrorMessage json.RawMessage   `json:"error_message"`
	Error        json.RawMessage   `json:"error"`
	Errors       []json.RawMessage `json:"errors"`

	FaultCode   json.RawMessage `json:"faultcode"`
	Code        json.RawMessage `json:"code"`
	FaultString json.RawMessage `json:"faultstring"`
	Description json.RawMessage `json:"description"`
	Message     json.RawMessage `json:"message"`
	Detail      json.RawMessage `json:"detail"`
	Title       json.RawMessage `json:"title"`
}

// maxNesting bounds how deep an error may be wrapped.
const maxNesting = 4

// decodeFaultJSON unwraps one layer: an object, a string that is itself JSON,
// or plain text.
func decodeFaultJSON(data []byte, depth int) fault {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || string(data) == "null" || depth > maxNesting {
		return fault{}
	}
	var text string
	if data[0] == '"' && json.Unmarshal(data, &text) == nil {
		return decodeFaultJSON([]byte(text), depth+1)
	}
	var body faultBody
	if data[0] != '{' || json.Unmarshal(data, &body) != nil {
		return fault{detail: plainText(string(data))}
	}
	switch {
	case body.ErrorMessage != nil:
		return decodeFaultJSON(body.ErrorMessage, depth+1)
	case body.Error != nil:
		return decodeFaultJSON(body.Error, depth+1)
	case len(body.Errors) > 0:
		return decodeFaultJSON(body.Errors[0], depth+1)
	}
	return fault{
		code:   firstText(body.FaultCode, body.Code),
		title:  firstText(body.Title),
		detail: plainText(firstText(body.FaultString, body.Description, body.Message, body.Detail)),
	}
}

// firstText returns the first candidate that is a non-empty string. Numeric
// codes repeat the status and are skipped.
func firstText(candidates ...json.RawMessage) string {
	for _, raw := range candidates {
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

var (
	htmlUnseen = regexp.MustCompile(`(?is)<(head|style|script)\b.*?</(head|style|script)>|<!--.*?-->`)
	htmlTag    = regexp.MustCompile(`(?s)</?[a-zA-Z!][^<>]*>`)
)

// plainText removes the markup of an HTML page and leaves other text as it is.
func plainText(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	start := strings.ToLower(clip(text, 20))
	if !strings.HasPrefix(start, "<!doctype") && !strings.HasPrefix(start, "<html") {
		return text
	}
	text = htmlUnseen.ReplaceAllString(clip(text, 4*detailLimit), " ")
	text = html.UnescapeString(htmlTag.ReplaceAllString(text, " "))
	return strings.Join(strings.Fields(text), " ")
}
