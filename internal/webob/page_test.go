package webob_test

import (
	"net/http"
	"testing"

	"github.com/gocyborg/gocyborg/internal/webob"
)

func TestAPageQuotesTheRequest(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		page        webob.Page
		html, plain string
	}{
		"escaped detail": {
			webob.Page{Status: 400, Detail: "a \"b\"\n<c> & 'ü'"},
			"The server could not comply with the request since it is either malformed or otherwise incorrect.<br /><br />\n" +
				"a &quot;b&quot;\n&lt;c&gt; &amp; &#x27;&#252;&#x27;\n\n",
			"400 Bad Request\n\nThe server could not comply with the request since it is either malformed or otherwise incorrect.\n\n a \"b\"  & 'ü'  ",
		},
		"header": {
			webob.Page{Status: 406, Request: &http.Request{Header: http.Header{"Accept": {"<b>"}}}},
			"The resource could not be generated that was acceptable to your browser\n(content of type &lt;b&gt;. <br /><br />\n",
			"406 Not Acceptable\n\nThe resource could not be generated that was acceptable to your browser (content of type . \n\n ",
		},
		"no header": {
			webob.Page{Status: 415, Request: new(http.Request), NoHeader: "None"},
			"The request media type None is not supported by this server.\n<br /><br />\n",
			"415 Unsupported Media Type\n\nThe request media type None is not supported by this server. \n\n ",
		},
		"method": {
			webob.Page{Status: 405, Request: &http.Request{Method: "A&B"}, Detail: "no"},
			"The method A&amp;B is not allowed for this resource. <br /><br />\nno",
			"405 Method Not Allowed\n\nThe method A&B is not allowed for this resource. \n\n no",
		},
	} {
		title := tt.plain[:len("400 ")] + http.StatusText(tt.page.Status)
		html := "<html>\n <head>\n  <title>" + title + "</title>\n </head>\n <body>\n  <h1>" + title + "</h1>\n  " + tt.html + "\n </body>\n</html>"
		if got := tt.page.HTML(); got != html {
			t.Errorf("%s: got %q, want %q", name, got, html)
		}
		if got := tt.page.Plain(); got != tt.plain || got != title+"\n\n"+tt.page.Line() {
			t.Errorf("%s: got %q, want %q", name, got, tt.plain)
		}
	}
}
