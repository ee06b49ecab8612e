package cyborgclient

import (
	"net/http"
	"strings"
)

// defaultRoles are the roles that Cyborg's default policies require for an operation
// (cyborg/policies). What every user of a project may do is not listed.
var defaultRoles = map[string]struct {
	until2026 string // 13.0 to 16.0.1
	since2026 string // from 17.0, where an administrator may keep the rules before
}{
	"accelerator.arq.create":  {"member or admin", "member, service or admin"},
	"accelerator.arq.list":    {since2026: "reader or admin"},
	"accelerator.arq.get":     {"admin", "reader or admin"},
	"accelerator.device.list": {"admin", "manager or admin"},
	"accelerator.device.get":  {"admin", "manager or admin"},

	"accelerator.deployable.list": {"admin", "manager or admin"},
	"accelerator.deployable.get":  {"admin", "manager or admin"},
	"accelerator.attribute.list":  {"admin", "manager or admin"},
	"accelerator.attribute.get":   {"admin", "manager or admin"},

	"accelerator.device_profile.list": {"reader or admin", "reader or admin"},
	"accelerator.device_profile.get":  {"admin", "reader or admin"},

	"accelerator.device_profile.create": {"admin", "admin"},
	"accelerator.device_profile.delete": {"admin", "admin"},
	"accelerator.attribute.create":      {"admin", "admin"},
	"accelerator.attribute.delete":      {"admin", "admin"},
	"accelerator.deployable.program":    {"admin", "admin"},
	"accelerator.device.enable":         {"admin", "admin"},
	"accelerator.device.disable":        {"admin", "admin"},
}

// requiredRole returns the role that the default policy of the answering Cyborg requires,
// or "" if the answer is not a refusal by policy. Cyborg does not name its release; its
// answers name the service in OpenStack-API-Version from 17.0 on.
func requiredRole(op string, status int, detail string, header http.Header) string {
	version := header.Get(headerVersion)
	if status != http.StatusForbidden || version == "" || !strings.HasPrefix(detail, "Access was denied") {
		return ""
	}
	if strings.HasPrefix(version, serviceType) {
		return defaultRoles[op].since2026
	}
	return defaultRoles[op].until2026
}
