package cyborgclient

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Collections below the endpoint.
const (
	pathDeviceProfiles = "device_profiles"
	pathARQs           = "accelerator_requests"
	pathDevices        = "devices"
	pathDeployables    = "deployables"
	pathAttributes     = "attributes"
)

// versionSegment is a path segment that names a major version.
var versionSegment = regexp.MustCompile(`^v[0-9]+(\.[0-9]+)?$`)

// normalEndpoint is the URL below which the resources are, with /v2 and a
// slash at its end. Catalogs hold it with and without the version; Cyborg
// serves both, but only the versioned one has the version document.
func normalEndpoint(raw string) (string, error) {
	parsed, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https"):
		return "", fmt.Errorf("cyborgclient: endpoint: %w: not an http or https URL", ErrInvalid)
	case parsed.User != nil:
		return "", fmt.Errorf("cyborgclient: endpoint of %s: %w: carries a user name or password", parsed.Host, ErrInvalid)
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return "", fmt.Errorf("cyborgclient: endpoint %s: %w: carries a query or fragment", raw, ErrInvalid)
	}
	base := strings.TrimRight(parsed.String(), "/")
	last := base[strings.LastIndex(base, "/")+1:]
	switch {
	case !versionSegment.MatchString(last):
		base += "/v2"
	case last != "v2" && !strings.HasPrefix(last, "v2."):
		return "", fmt.Errorf("cyborgclient: endpoint %s: %w: only version 2 of the API exists", raw, ErrInvalid)
	}
	return base + "/", nil
}

func (c *Client) versionURL() string { return strings.TrimSuffix(c.service.Endpoint, "/") }

// resourceURL joins escaped path segments to the endpoint.
func (c *Client) resourceURL(segments ...string) string {
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	return c.service.ServiceURL(segments...)
}

// queryURL is the URL of a collection with a query; no query, no question mark.
func (c *Client) queryURL(collection string, query pairs) string {
	address := c.resourceURL(collection)
	if len(query) == 0 {
		return address
	}
	return address + "?" + query.encode()
}

// pairs is a query in the order in which it is written: the server's filters
// pair the n-th field with the n-th value.
type pairs []Pair

// add appends a parameter unless its value is empty.
func (p *pairs) add(key, value string) {
	if value != "" {
		*p = append(*p, Pair{key, value})
	}
}

// filter appends one of the server's array filters, which are written as two
// parameters. It does not accept the JSON form that its reference documents.
func (p *pairs) filter(field, value string) {
	if value != "" {
		*p = append(*p, Pair{"filters.field", field}, Pair{"filters.value", value})
	}
}

func (p pairs) encode() string {
	parts := make([]string, len(p))
	for i, pair := range p {
		parts[i] = url.QueryEscape(pair.Key) + "=" + url.QueryEscape(pair.Value)
	}
	return strings.Join(parts, "&")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
