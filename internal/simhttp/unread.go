package simhttp

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// generalHeaders are read, or rightly ignored, by every service and by what stands in
// front of it: HTTP's own, those of proxies, browsers and tracing, and OpenStack's.
var generalHeaders = map[string]bool{
	"Authorization": true, "Cache-Control": true, "Connection": true, "Cookie": true, "Date": true, "Dnt": true,
	"Expect": true, "Forwarded": true, "Host": true, "Keep-Alive": true, "Origin": true, "Pragma": true,
	"Priority": true, "Referer": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Upgrade-Insecure-Requests": true, "User-Agent": true, "Via": true,
	"Traceparent": true, "Tracestate": true, "Baggage": true,
	"Openstack-Api-Version": true, "Openstack-System-Scope": true,
	"X-Auth-Token": true, "X-Service-Token": true, "X-Openstack-Request-Id": true, "X-Trace-Info": true, "X-Trace-Hmac": true,
	"X-Roles": true, "X-User-Id": true, "X-User-Name": true, "X-User-Domain-Id": true, "X-User-Domain-Name": true,
	"X-Project-Id": true, "X-Project-Name": true, "X-Project-Domain-Id": true, "X-Project-Domain-Name": true,
	"X-Real-Ip": true, "X-Control-Token": true,
}

// generalPrefixes are the beginnings of further ones.
var generalPrefixes = []string{"Accept", "Access-Control-", "Content-", "If-", "Sec-", "X-Forwarded-"}

// unread lists what of a request its route does not read: "query limitt", "header X-Foo",
// "body [0].colour", in this order. Of a request without a route nothing is listed.
func (s *Service) unread(r *http.Request, match Match, body []byte) []string {
	if match.Route == nil {
		return nil
	}
	var list []string
	if r.URL.RawQuery != "" {
		list = unreadQuery(r.URL.RawQuery, match.Route.Query)
	}
	list = append(list, s.unreadHeaders(r.Header)...)
	if len(body) > 0 {
		known := match.body
		if match.Route.BodyOf != nil && !match.Route.BodyOf(r) {
			known = nil
		}
		list = append(list, known.unreadBody(body)...)
	}
	return list
}

// unreadQuery lists the keys that are not known, in the order in which they were sent.
func unreadQuery(raw string, known []string) []string {
	var list []string
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, _, _ := strings.Cut(pair, "=")
		name = queryName(name)
		if !slices.Contains(known, "!"+name) && slices.ContainsFunc(known, func(k string) bool { return fits(k, name) }) {
			continue
		}
		if text := "query " + clipped(name); len(list) < maxUnread && !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}

// queryName is a name without escapes; one that is badly escaped stands for itself.
func queryName(name string) string {
	if plain, err := url.QueryUnescape(name); err == nil {
		return plain
	}
	return name
}

// fits compares a name with a known one, in which a trailing * stands for any end.
func fits(known, name string) bool {
	if prefix, open := strings.CutSuffix(known, "*"); open {
		return strings.HasPrefix(name, prefix)
	}
	return known == name
}

func (s *Service) unreadHeaders(header http.Header) []string {
	var list []string
	for name := range header {
		if generalHeaders[name] || slices.Contains(s.Headers, name) ||
			slices.ContainsFunc(generalPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		list = append(list, "header "+clipped(name))
	}
	slices.Sort(list)
	return list[:min(len(list), maxUnread)]
}
