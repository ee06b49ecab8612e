package placement

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/internal/session"
)

func TestErrorTextsDoNotActOnATerminal(t *testing.T) {
	t.Parallel()
	const hostile = "x\x1b[2J\r\u009b\u202e"
	refused := gophercloud.ErrUnexpectedResponseCode{
		Actual: http.StatusConflict, Body: []byte(`{"errors": [{"detail": "x\u001b[2J\u009b\u202e"}]}`),
		ResponseHeader: http.Header{"X-Openstack-Request-Id": {hostile}},
	}
	for _, cause := range []error{refused, errors.New(hostile), &url.Error{Op: "Get", URL: "http://x", Err: errors.New(hostile)}} {
		err := decodeError("GET allocations", "c", cause, &session.Outcome{Err: errors.Join(errors.New(hostile), errors.New("another"))})
		if strings.ContainsAny(err.Error(), "\x1b\r\n\u009b\u202e") {
			t.Errorf("the text is %q", err)
		}
	}
}

func TestErrorTextsHaveNoTokens(t *testing.T) {
	t.Parallel()
	sent := &session.Outcome{Sent: []string{"secret", ""}, Err: errors.New("secret is unknown")}
	refused := gophercloud.ErrUnexpectedResponseCode{
		Actual: http.StatusConflict, Body: []byte(`{"errors": [{"detail": "for secret"}]}`),
		ResponseHeader: http.Header{"X-Openstack-Request-Id": {"secret"}},
	}
	for _, cause := range []error{refused, errors.New("secret"), &url.Error{Op: "Get", URL: "http://x", Err: errors.New("secret")}} {
		err := decodeError("GET allocations", "c", cause, sent)
		var answered gophercloud.ErrUnexpectedResponseCode
		errors.As(err, &answered)
		if strings.Contains(err.Error()+string(answered.Body)+DetailOf(err), "secret") {
			t.Errorf("the text is %q, the body %q", err, answered.Body)
		}
	}
}
