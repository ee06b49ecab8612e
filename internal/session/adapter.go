package session

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// Section is a section of a service's configuration file with the options of keystoneauth: the value of an option that is set.
type Section func(option string) (string, bool)

// Adapter says where a client finds its service, as keystoneauth's adapter options do.
type Adapter struct {
	Service    string   // its type
	Override   string   // its URL, which overrides the catalog
	Region     string   // empty: any
	Interfaces []string // the first that the catalog has
}

// locator returns a locator that looks for the service as the adapter says, and for others as the given one does.
func (a Adapter) locator(catalog gophercloud.EndpointLocator) gophercloud.EndpointLocator {
	if a.Service == "" {
		return catalog
	}
	return func(opts gophercloud.EndpointOpts) (string, error) {
		switch {
		case opts.Type != a.Service:
			return catalog(opts)
		case a.Override != "":
			return gophercloud.NormalizeURL(a.Override), nil
		}
		opts.Region = cmp.Or(opts.Region, a.Region)
		var first error
		for _, availability := range a.Interfaces {
			opts.Availability = gophercloud.Availability(strings.TrimSuffix(availability, "URL")) // an older form
			url, err := catalog(opts)
			if err == nil {
				return url, nil
			}
			first = cmp.Or(first, err)
		}
		return "", fmt.Errorf("region %q, interfaces %s: %w", opts.Region, strings.Join(a.Interfaces, ", "), first)
	}
}

// sectionFields are the options of keystoneauth by their fields of auth in clouds.yaml, and older names of them.
var sectionFields = map[string][]string{
	"auth_url": {"auth_url"}, "password": {"password"}, "trust_id": {"trust_id"}, "system_scope": {"system_scope"},
	"username": {"username", "user_name"}, "user_id": {"user_id"},
	"user_domain_id": {"user_domain_id"}, "user_domain_name": {"user_domain_name"},
	"project_id": {"project_id", "tenant_id"}, "project_name": {"project_name", "tenant_name"},
	"project_domain_id": {"project_domain_id"}, "project_domain_name": {"project_domain_name"},
	"domain_id": {"domain_id"}, "domain_name": {"domain_name"},
	"application_credential_id": {"application_credential_id"}, "application_credential_name": {"application_credential_name"},
	"application_credential_secret": {"application_credential_secret"},
}

// sectionTypes are the plugins of keystoneauth that are supported, as auth_type in clouds.yaml.
var sectionTypes = map[string]string{
	"password": "password", "v3password": "password", "v3applicationcredential": "v3applicationcredential",
}

// value returns the first of some options that is set, or "".
func (s Section) value(names ...string) string {
	for _, name := range names {
		if text, set := s(name); set {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// FromSections returns a cloud whose user one section names, and whose service the adapter finds. The first of the other sections
// that sets an option of TLS decides it, as keystoneauth does not read those through auth_section. The error names the option.
func FromSections(user Section, tls []Section, adapter Adapter) (Cloud, error) {
	kind := user.value("auth_type", "auth_plugin")
	switch {
	case kind == "":
		return Cloud{}, errors.New("auth_type is not set")
	case sectionTypes[kind] == "":
		return Cloud{}, fmt.Errorf("auth_type: %q is not password, v3password or v3applicationcredential", kind)
	}
	auth := map[string]string{}
	for field, names := range sectionFields {
		if text := user.value(names...); text != "" {
			auth[field] = text
		}
	}
	if auth["auth_url"] == "" {
		return Cloud{}, errors.New("auth_url is not set")
	}
	for _, owner := range []string{"user", "project"} {
		if auth[owner+"_domain_id"]+auth[owner+"_domain_name"] == "" && auth[owner+"_id"] == "" && auth["trust_id"] == "" {
			auth[owner+"_domain_id"], auth[owner+"_domain_name"] = user.value("default_domain_id"), ""
			if auth[owner+"_domain_id"] == "" {
				auth[owner+"_domain_name"] = user.value("default_domain_name")
			}
		}
	}
	maps.DeleteFunc(auth, func(_, text string) bool { return text == "" })
	fields := map[string]any{"auth_type": sectionTypes[kind], "auth": auth, "verify": true}
	for _, section := range slices.Backward(tls) {
		for field, option := range map[string]string{"cacert": "cafile", "cert": "certfile", "key": "keyfile"} {
			if text := section.value(option); text != "" {
				fields[field] = text
			}
		}
		switch insecure := strings.ToLower(section.value("insecure")); insecure {
		case "":
		case "false", "0", "off", "no":
			fields["verify"] = true
		case "true", "1", "on", "yes":
			fields["verify"] = false
		default:
			return Cloud{}, fmt.Errorf("insecure: %q is neither true nor false", insecure)
		}
	}
	cloud, err := fromFields(fields)
	cloud.adapter = adapter
	return cloud, err
}
