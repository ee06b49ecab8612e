package simhttp

import (
	"net/http"
	"strings"
)

const (
	// MaxKept is how much of one request's body is kept, in bytes.
	MaxKept = 64 << 10
	// MaxKeptInAll is how much a recorder keeps of all bodies together; the oldest go
	// first.
	MaxKeptInAll = 16 << 20
)

// The reasons why a body, or the rest of it, is not there.
const (
	CutLong    = "long"    // only the first MaxKept bytes are there
	CutOld     = "old"     // MaxKeptInAll was used up by newer ones
	CutData    = "data"    // it is no JSON but data, such as an image
	CutWithout = "secrets" // it may hold a secret and is no JSON that it could be taken out of
)

// Sent is what of a request is kept so that it can be sent again: never a token or a
// password. It does not change.
type Sent struct {
	// Header are the headers that matter: microversion, Content-Type, Accept.
	Header map[string]string `json:"header,omitempty"`
	// Login, ServiceLogin and SubjectLogin tell whose tokens X-Auth-Token,
	// X-Service-Token and X-Subject-Token were: user/project, user/ without a scope,
	// user/* for the whole system; UnknownLogin for one that was not valid; empty for none.
	Login        string `json:"login,omitempty"`
	ServiceLogin string `json:"service_login,omitempty"`
	SubjectLogin string `json:"subject_login,omitempty"`
	// RawPath is the path as it was sent where its escapes are not the usual ones.
	RawPath string `json:"raw_path,omitempty"`
	// Body is the body without secrets, [Redacted] in their place.
	Body string `json:"body,omitempty"`
	// Length is that of the body as it was sent, in bytes.
	Length int64 `json:"length,omitempty"`
	// Cut tells why Body is not the whole body; empty: it is.
	Cut string `json:"cut,omitempty"`
}

// UnknownLogin is the login of a token that was not valid, or of which nobody knows.
const UnknownLogin = "?"

// keptHeaders are those without which a request may be another one.
var keptHeaders = []string{"Openstack-Api-Version", "X-Openstack-Nova-Api-Version", "Content-Type", "Accept"}

// sentOf is what is kept of a request; the body is added when it is known.
func (r *Recorder) sentOf(req *http.Request) *Sent {
	sent := &Sent{
		RawPath:      req.URL.RawPath,
		Login:        r.login(req.Header.Get("X-Auth-Token")),
		ServiceLogin: r.login(req.Header.Get("X-Service-Token")),
		SubjectLogin: r.login(req.Header.Get("X-Subject-Token")),
	}
	for _, name := range keptHeaders {
		values := req.Header[name]
		if len(values) == 0 {
			continue
		}
		if sent.Header == nil {
			sent.Header = make(map[string]string, len(keptHeaders))
		}
		sent.Header[name] = clipped(strings.Join(values, ", "))
	}
	return sent
}

// login tells whose a token is.
func (r *Recorder) login(token string) string {
	if token == "" {
		return ""
	}
	if r.LoginOf != nil {
		if who := r.LoginOf(token); who != "" {
			return who
		}
	}
	return UnknownLogin
}

// keep adds the body.
func (s *Sent) keep(body []byte, login func(string) string) {
	s.Length = int64(len(body))
	if len(body) == 0 {
		return
	}
	plain, ok := redact(body, login)
	switch {
	case !ok:
		s.Cut = CutWithout
	case len(plain) > MaxKept:
		s.Body, s.Cut = string(plain[:MaxKept]), CutLong
	default:
		s.Body = string(plain)
	}
}

// ahead makes the body of a request known before the service sees it, and returns what
// tells of it afterwards. A body of data is only counted.
func (s *Sent) ahead(r *http.Request, data bool, login func(string) string) (body []byte, done func()) {
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		return nil, func() {}
	case data:
		c := &counted{ReadCloser: r.Body}
		r.Body = c
		return nil, func() { s.Length, s.Cut = c.length, CutData }
	}
	b := newReadAhead(r.Body)
	r.Body = b
	s.keep(b.data, login)
	if r.ContentLength > s.Length {
		s.Length, s.Cut = r.ContentLength, CutLong
	}
	return b.data, func() {}
}
