package cyborgclient

import (
	"bytes"
	"encoding/json"
	"html"
	"regexp"
	"strings"
)

// fault is what an error body says, in whichever dialect.
type fault struct{ code, title, detail string }

// detailLimit bounds the message kept from an error body, in bytes. A
// conductor's traceback fits; a page of markup does not need to.
const detailLimit = 8 << 10

// decodeFault reads an error body. Cyborg's middleware rewrites every error of
// its API to {"error_message": "<the original body as text>"}
// (cyborg/api/middleware/parsable_error.py), where the original is, in turn,
//
//   - WSME's fault as JSON text: {"faultcode", "faultstring", "debuginfo"};
//   - the router's as JSON text: {"code", "title", "description"}, or as
//     HTML or plain text, depending on the Accept header;
//   - "null" for the 423 of unresolved ARQs.
//
// Authentication failures come from keystonemiddleware, outside of that:
// {"error": {"code", "title", "message"}}. Proxies answer in HTML, and some
// OpenStack services with {"errors": [...]}. Anything else is taken as text.
func decodeFault(body []byte) fault {
	f := decodeFaultJSON(body, 0)
	f.title, f.detail = clip(f.title, 200), clip(f.detail, detailLimit)
	return f
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

// maxNesting bounds how often an error may be wrapped in another one.
const maxNesting = 4

// decodeFaultJSON peels one layer: an object, a text that is itself JSON, or
// plain text.
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
	return body.fault()
}

// fault picks the members of the innermost object.
func (b faultBody) fault() fault {
	return fault{
		code:   firstText(b.FaultCode, b.Code),
		title:  firstText(b.Title),
		detail: plainText(firstText(b.FaultString, b.Description, b.Message, b.Detail)),
	}
}

// firstText is the first candidate that is a text with something in it. Codes
// that are numbers repeat the status and are skipped.
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

// plainText takes the markup out of a page; text without markup stays as it is.
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
