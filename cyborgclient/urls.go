package cyborgclient

import (
	"fmt"
	"net/url"
	"regexp"
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

// normalEndpoint returns the base URL of the resources, ending in /v2/. Catalogs
// have it with and without the version. Cyborg serves both, and only the versioned one has the
// version document.
func normalEndpoint(raw string) (string, error) {
	parsed, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https"):
		return "", fmt.Errorf("cyborgclient: endpoint: %w: not an http or https URL", ErrInvalid)
	case parsed.User != nil:
		return "", fmt.Errorf("cyborgclient: endpoint of %s: %w: it has a user name or password", parsed.Host, ErrInvalid)
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return "", fmt.Errorf("cyborgclient: endpoint %s: %w: it has a query or fragment", raw, ErrInvalid)
	}
	base := strings.TrimRight(parsed.String(), "/")
	last := base[strings.LastIndex(base, "/")+1:]
	switch {
	case !versionSegment.MatchString(last):
		base += "/v2"
	case last != "v2" && !strings.HasPrefix(last, "v2."):
		return "", fmt.Errorf("cyborgclient: endpoint %s: %w: only version 2 of the API is supported", raw, ErrInvalid)
	}
	return base + "/", nil
}

// resourceURL joins escaped path segments to the endpoint.
func (c *Client) resourceURL(segments ...string) string {
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	return c.service.ServiceURL(segments...)
}

// queryURL returns the URL of a collection with a query, which may be empty.
func (c *Client) queryURL(collection string, query pairs) string {
	address := c.resourceURL(collection)
	for i, pair := range query {
		separator := "&"
		if i == 0 {
			separator = "?"
		}
		address += separator + url.QueryEscape(pair.key) + "=" + url.QueryEscape(pair.value)
	}
	return address
}

// pairs is a query in the order of writing: the server combines the n-th
// filters.field with the n-th filters.value.
type pairs []struct{ key, value string }

// add appends a parameter unless its value is empty.
func (p *pairs) add(key, value string) {
	if value != "" {
		*p = append(*p, pairs{{key, value}}...)
	}
}

// filter appends an array filter, which has two parameters. The server does not
// accept the JSON form that its reference documents.
func (p *pairs) filter(field, value string) {
	if value != "" {
		*p = append(*p, pairs{{"filters.field", field}, {"filters.value", value}}...)
	}
}
