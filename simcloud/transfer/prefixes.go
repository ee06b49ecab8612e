package transfer

import (
	"cmp"
	"regexp"
	"strings"
)

// prefixes are what the names of deployables begin with, and the hosts that they are of.
type prefixes map[string]string

var unsafe = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// prefixesOf returns the forms in which names of deployables contain host names: the whole name,
// the name with underscores as the fake driver writes it, and the first label, since drivers use
// [DEFAULT] host while a device has the FQDN from 2026.1 on. An ambiguous form is ignored, unless
// it is the name of a host.
func prefixesOf(hosts []string) prefixes {
	of := make(prefixes, 3*len(hosts))
	for _, form := range []func(string) string{firstLabel, safeName, wholeName} {
		seen := make(map[string]bool, len(hosts))
		for _, host := range hosts {
			prefix := form(host)
			if of[prefix] = host; seen[prefix] {
				of[prefix] = ""
			}
			seen[prefix] = true
		}
	}
	return of
}

func firstLabel(host string) string {
	label, _, _ := strings.Cut(host, ".")
	return label
}

func safeName(host string) string { return unsafe.ReplaceAllString(host, "_") }

func wholeName(host string) string { return host }

// cut splits the name of a deployable after its host, which is empty if the name begins with none
// of the hosts. The longest prefix wins. A host that is known by its short name may appear with
// its FQDN.
func (p prefixes) cut(name string) (host, rest string) {
	for end := strings.LastIndexByte(name, '_'); end > 0; end = strings.LastIndexByte(name[:end], '_') {
		if host := cmp.Or(p[name[:end]], p[firstLabel(name[:end])]); host != "" {
			return host, name[end+1:]
		}
	}
	return "", name
}
