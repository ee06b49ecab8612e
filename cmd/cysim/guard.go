package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// controlTokenHeader carries the token of the control routes.
const controlTokenHeader = "X-Control-Token"

// guard keeps the routes below /_sim/ to whom they are for: the users of this machine, or
// those who know the token. Browsers are not let in on behalf of other sites.
func (f listenFlags) guard(handler http.Handler) http.Handler {
	sameSite := http.NewCrossOriginProtection().Handler(handler)
	host, _, _ := net.SplitHostPort(f.Listen) // was checked when it was opened
	remote := !isLoopback(host)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/_sim" && !strings.HasPrefix(r.URL.Path, "/_sim/"):
			handler.ServeHTTP(w, r)
		case f.ControlToken != "" && !f.knowsToken(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="cysim", charset="UTF-8"`)
			http.Error(w, "the token of --control-token is needed, in "+controlTokenHeader+" or as the password", http.StatusUnauthorized)
		case f.ControlToken == "" && remote:
			http.Error(w, "off: other machines can reach this address; start with --control-token", http.StatusForbidden)
		case f.ControlToken == "" && !isOwnName(r.Host):
			http.Error(w, "only for this machine's own names, such as localhost", http.StatusForbidden)
		default:
			sameSite.ServeHTTP(w, r)
		}
	})
}

// knowsToken compares in constant time, whatever the lengths.
func (f listenFlags) knowsToken(r *http.Request) bool {
	given := r.Header.Get(controlTokenHeader)
	if _, password, ok := r.BasicAuth(); ok && given == "" {
		given = password
	}
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(f.ControlToken))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// isOwnName refuses names that somebody else's name server may have given this machine.
func isOwnName(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return host == "localhost" || net.ParseIP(host) != nil
}
