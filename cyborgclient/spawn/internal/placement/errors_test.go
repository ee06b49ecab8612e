package placement

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

func TestErrorTextsDoNotActOnATerminal(t *testing.T) {
	t.Parallel()
	const hostile = "x\x1b[2J\r\u009b\u202e"
	refused := gophercloud.ErrUnexpectedResponseCode{
		Actual: http.StatusConflict, Body: []byte(`{"errors": [{"detail": "x\u001b[2J\u009b\u202e"}]}`),
		ResponseHeader: http.Header{"X-Openstack-Request-Id": {hostile}},
	}
	for _, cause := range []error{refused, errors.New(hostile), &url.Error{Op: "Get", URL: "http://x", Err: errors.New(hostile)}} {
		err := decodeError("GET allocations", "c", cause, errors.Join(errors.New(hostile), errors.New("another")))
		if strings.ContainsAny(err.Error(), "\x1b\r\n\u009b\u202e") {
			t.Errorf("the text is %q", err)
		}
	}
}
