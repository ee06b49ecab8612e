package keystone

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// trimSlashes removes the slashes that Keystone and Werkzeug ignore: those at the end, and all but one at
// the beginning.
func trimSlashes(path string) string {
	path = strings.Trim(path, "/")
	if path == "" {
		return ""
	}
	return "/" + path
}

// canonicalPath is a path without such slashes, and with its identifiers as they were made: in lower-case hexadecimal digits,
// except the region's. Keystone looks them up in SQL, but the id of a domain, which it compares in Python.
func (s *Server) canonicalPath(path string) string {
	key, segments := s.directory.key, strings.Split(trimSlashes(path), "/")
	for i, segment := range segments {
		switch id := key(segment); {
		case i > 0 && segments[i-1] == "regions" && key.Equal(segment, s.cfg.Region):
			segments[i] = s.cfg.Region
		case len(id) == idLength && strings.Trim(id, "0123456789abcdef") == "":
			segments[i] = id
		}
	}
	return strings.Join(segments, "/")
}

var slashes = regexp.MustCompile("/+")

// redirectMerged redirects a path with several slashes in a row to the path with one, if that exists, as
// Werkzeug's merge_slashes does: for every method, and with the query. Slashes at the beginning of such a
// path make it unknown.
func (s *Server) redirectMerged(c *simhttp.Call) bool {
	path := strings.TrimPrefix(c.URL.EscapedPath(), c.Mount)
	merged := slashes.ReplaceAllString(path, "/")
	if c.Route != nil || len(c.Allowed) > 0 || merged == path || strings.HasPrefix(path, "//") && c.Mount == "" {
		return false
	}
	if found := s.Router.Match(c.Method, trimSlashes(merged)); found.Route == nil && len(found.Allowed) == 0 {
		return false
	}
	to := c.BaseURL() + c.Mount + merged
	if c.URL.RawQuery != "" {
		to += "?" + c.URL.RawQuery
	}
	c.W.Header().Set("Location", to)
	c.W.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.W.WriteHeader(http.StatusPermanentRedirect)
	shown := html.EscapeString(to)
	_, _ = fmt.Fprintf(c.W, "<!doctype html>\n<html lang=en>\n<title>Redirecting...</title>\n<h1>Redirecting...</h1>\n"+
		"<p>You should be redirected automatically to the target URL: <a href=\"%s\">%s</a>. If not, click the link.\n", shown, shown)
	return true
}
