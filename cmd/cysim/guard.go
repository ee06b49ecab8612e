package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/control"
)

// controlTokenHeader carries the token of the control routes.
const controlTokenHeader = control.TokenHeader

// guard restricts the routes below /_sim/ to the users of this machine, or to clients with the
// control token. It refuses requests that browsers send for other sites: all such requests below
// /_sim/; elsewhere, if only this machine can reach the server, requests that could change
// something, or that use a host name of the other site.
func (f listenFlags) guard(handler http.Handler, id *identity) http.Handler {
	remote := f.isRemote()
	sameOrigin := http.NewCrossOriginProtection().Handler(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := r.URL.Path == "/_sim" || strings.HasPrefix(r.URL.Path, "/_sim/")
		switch {
		case !control && remote:
			handler.ServeHTTP(w, r)
		case control && f.ControlToken != "" && !f.knowsToken(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="cysim", charset="UTF-8"`)
			http.Error(w, "the token of --control-token is required, in "+controlTokenHeader+" or as the password", http.StatusUnauthorized)
		case control && f.ControlToken == "" && remote:
			http.Error(w, "off, because other machines can reach this address; start with --control-token", http.StatusForbidden)
		case !(control && f.ControlToken != "") && !isOwnName(r.Host, id):
			http.Error(w, foreignName(r.Host, control), http.StatusForbidden)
		case control && isEmbedded(r):
			http.Error(w, "not for the pages of other sites", http.StatusForbidden)
		default:
			sameOrigin.ServeHTTP(w, r)
		}
	})
}

// foreignName is the answer to a request whose Host header is not a name of the server, which only this machine can reach. It
// names what leads to an answer: another host in the URL, or a flag that disables the check.
func foreignName(host string, control bool) string {
	flag := "--listen 0.0.0.0:PORT, which other machines and containers can reach"
	if control {
		flag = "--control-token TOKEN, and send the token"
	}
	return fmt.Sprintf("%.100q is not a name of this machine: use localhost or an IP address as the host of the URL, or start the server with %s", host, flag)
}

// isRemote reports whether other machines can reach the server.
func (f listenFlags) isRemote() bool {
	host, _, _ := net.SplitHostPort(f.Listen) // was checked when it was opened
	return !isLoopback(host)
}

// isEmbedded reports whether a browser sends a request for a page of another site, rather than because its
// user follows a link. Such a page cannot read the answer, but streams would wait for it.
func isEmbedded(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	foreign := site != "" && site != "same-origin" && site != "none"
	return foreign && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// knowsToken compares in constant time.
func (f listenFlags) knowsToken(r *http.Request) bool {
	sent := r.Header.Get(controlTokenHeader)
	if _, password, ok := r.BasicAuth(); ok && sent == "" {
		sent = password
	}
	a, b := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(f.ControlToken))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// isOwnName refuses names that a foreign name server may resolve to this machine. The names of the server's
// certificate are its own.
func isOwnName(hostport string, id *identity) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return host == "localhost" || net.ParseIP(host) != nil || id.covers(host)
}
