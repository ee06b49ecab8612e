package simcloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// opLogin is how clients get their tokens, opRevoke how they end them.
const (
	opLogin  = "identity.token.create"
	opRevoke = "identity.token.revoke"
)

// sentRequest is a request of the record that came from outside, ready to be sent again.
type sentRequest struct {
	simhttp.Exchange
	target string        // path and query, escaped
	at     time.Duration // after the first one of the record
	// lost tells why it cannot be sent again; empty: it can.
	lost string
}

// sentRequests lists them in order. Missing tells that the record does not begin with the
// cloud's first request.
func (c *Cloud) sentRequests() (list []sentRequest, missing bool) {
	exchanges := c.recorder.Exchanges()
	missing = c.recorder.Started()-c.built > uint64(len(exchanges))
	for _, e := range exchanges {
		if e.Internal || e.Sent == nil {
			continue
		}
		s := sentRequest{Exchange: e, target: target(e), at: e.Started.Sub(exchanges[0].Started), lost: lost(e)}
		list = append(list, s)
	}
	return list, missing
}

// target is the path and the query of a request, with every byte that is none of a URL
// escaped.
func target(e simhttp.Exchange) string {
	path := (&url.URL{Path: e.Path, RawPath: e.Sent.RawPath}).EscapedPath()
	if e.Query == "" {
		return path
	}
	var b strings.Builder
	for _, c := range []byte(e.Query) {
		if c <= ' ' || c >= 0x7f || c == '#' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return path + "?" + b.String()
}

// lost tells why a request cannot be sent as it was.
func lost(e simhttp.Exchange) string {
	switch e.Sent.Cut {
	case simhttp.CutLong:
		return fmt.Sprintf("its body of %d bytes is longer than what is kept", e.Sent.Length)
	case simhttp.CutOld:
		return "its body was dropped to make room for newer ones"
	case simhttp.CutData:
		return fmt.Sprintf("its %d bytes of data are not kept", e.Sent.Length)
	case simhttp.CutWithout:
		return "its body may hold a secret and is no JSON"
	}
	return ""
}

// isLogin tells whether a request got a token by a password, which is not in the record.
func (s sentRequest) isLogin() bool {
	return s.Operation == opLogin && s.Method == http.MethodPost && s.Status == http.StatusCreated
}

// withPassword puts the password of the model's user back into a login that succeeded. It
// reports false for another kind of login.
func (c *Cloud) withPassword(body string) (string, bool) {
	var in struct {
		Auth struct {
			Identity struct {
				Methods  []string
				Password struct {
					User struct{ ID, Name string }
				}
			}
		}
	}
	if json.Unmarshal([]byte(body), &in) != nil {
		return "", false
	}
	for _, method := range in.Auth.Identity.Methods {
		if method != "password" && method != "token" {
			return "", false
		}
	}
	if !strings.Contains(body, simhttp.Redacted) {
		return body, true // by another token
	}
	user := in.Auth.Identity.Password.User
	password, ok := c.identity.PasswordOf(user.ID, user.Name)
	if !ok {
		return "", false
	}
	quoted, err := json.Marshal(password)
	if err != nil {
		return "", false
	}
	return strings.ReplaceAll(body, `"`+simhttp.Redacted+`"`, string(quoted)), true
}
