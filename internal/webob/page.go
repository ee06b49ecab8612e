package webob

import (
	"cmp"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Page is the answer to a request that is refused.
type Page struct {
	Request *http.Request
	Status  int
	// Detail follows the general text of the status.
	Detail string
	// NoHeader is what the page shows for a header that the request lacks.
	NoHeader string
}

// HTML is the page in HTML.
func (p Page) HTML() string {
	return "<html>\n <head>\n  <title>" + p.title() + "</title>\n </head>\n <body>\n  <h1>" + p.title() + "</h1>\n  " + p.text(escape) + "\n </body>\n</html>"
}

// Plain is the page as a text.
func (p Page) Plain() string { return p.title() + "\n\n" + p.Line() }

var (
	lineBreak   = regexp.MustCompile(`(?is)<br.*?>`)
	commentMark = regexp.MustCompile(`<!--|-->`)
	tag         = regexp.MustCompile(`(?s)<.*?>`)
	oneLine     = strings.NewReplacer("\n", " ", "\r", "")
)

// Line is the text below the title as one line, broken only where a tag breaks it. Everything that looks like a tag is removed, also from
// the detail.
func (p Page) Line() string {
	text := p.text(func(s string) string { return s })
	line := lineBreak.ReplaceAllString(oneLine.Replace(text), "\n")
	return tag.ReplaceAllString(commentMark.ReplaceAllString(line, ""), "")
}

func (p Page) title() string { return strconv.Itoa(p.Status) + " " + http.StatusText(p.Status) }

// text is the text below the title, with its tags.
func (p Page) text(escape func(string) string) string {
	header := func(name string) string { return escape(cmp.Or(p.Request.Header.Get(name), p.NoHeader)) }
	switch detail := escape(p.Detail); p.Status {
	case http.StatusMethodNotAllowed:
		return "The method " + escape(p.Request.Method) + " is not allowed for this resource. <br /><br />\n" + detail
	case http.StatusNotAcceptable:
		return "The resource could not be generated that was acceptable to your browser\n(content of type " + header("Accept") + ". <br /><br />\n" + detail
	case http.StatusUnsupportedMediaType:
		return "The request media type " + header("Content-Type") + " is not supported by this server.\n<br /><br />\n" + detail
	default:
		return explanation(p.Status) + "<br /><br />\n" + detail + "\n\n"
	}
}

// explanation is the general text of a status.
func explanation(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "The server could not comply with the request since it is either malformed or otherwise incorrect."
	case http.StatusForbidden:
		return "Access was denied to this resource."
	case http.StatusNotFound:
		return "The resource could not be found."
	case http.StatusConflict:
		return "There was a conflict when trying to complete your request."
	case http.StatusRequestEntityTooLarge:
		return "The body of your request was too large for this server."
	case http.StatusInternalServerError:
		return "The server has either erred or is incapable of performing the requested operation."
	case http.StatusServiceUnavailable:
		return "The server is currently unavailable. Please try again at a later time."
	}
	return http.StatusText(status)
}

// escape escapes a text as Python does, for a page in ASCII.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch r {
		case '&':
			b.WriteString("&amp;")
		case '<':
			b.WriteString("&lt;")
		case '>':
			b.WriteString("&gt;")
		case '"':
			b.WriteString("&quot;")
		case '\'':
			b.WriteString("&#x27;")
		default:
			if r < utf8.RuneSelf {
				b.WriteByte(byte(r))
			} else {
				b.WriteString("&#" + strconv.Itoa(int(r)) + ";")
			}
		}
	}
	return b.String()
}
