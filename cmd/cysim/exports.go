package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// variable is one environment variable for the caller's shell.
type variable struct{ name, value string }

// environment holds the changes to the environment of the caller's shell. A name in both lists is set.
type environment struct {
	set   []variable
	unset []string
}

// printEnvironment writes lines for a POSIX shell or fish in one write: a reader that sees the first line sees them all.
func printEnvironment(w io.Writer, e environment) error {
	var text strings.Builder
	unset := slices.DeleteFunc(slices.Clone(e.unset), func(name string) bool {
		return slices.ContainsFunc(e.set, func(v variable) bool { return v.name == name })
	})
	if names := strings.Join(unset, " "); names != "" {
		fmt.Fprintf(&text, "command -v unset >/dev/null && unset %s\n", names)
		fmt.Fprintf(&text, "command -v unset >/dev/null || set -e %s # fish\n", names)
	}
	for _, v := range append(slices.Clone(e.set), variable{"CYSIM_PID", strconv.Itoa(os.Getpid())}) {
		fmt.Fprintf(&text, "export %s=%s\n", v.name, command.Quote(v.value))
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("print the environment: %w", err)
	}
	return nil
}

// clientVariables are the variables that direct OpenStack's clients to a cloud, an account, a
// scope or an endpoint. A client may prefer them to the variables of [openStackVariables] or to a
// name in clouds.yaml.
//
// They are those of gophercloud (openstack/auth_env.go, openstack/config/clouds), keystoneauth (the options of its
// plugins password, token and admin_token, and loading/adapter.py and session.py), osc-lib (shell.py, api/auth.py),
// openstacksdk (config/loader.py, which reads every variable OS_KEY as the key of a cloud) and Terraform's provider.
// Versions of APIs (OS_COMPUTE_API_VERSION) select no cloud, except that of Keystone.
var clientVariables = regexp.MustCompile(`^OS_(` + strings.Join([]string{
	`CLOUD|CLOUD_NAME|PROFILE|CLIENT_CONFIG_FILE|CLIENT_SECURE_FILE`,
	`AUTH_URL|AUTH_TYPE|AUTH_PLUGIN|IDENTITY_API_VERSION`,
	`USERNAME|USER_NAME|USERID|USER_ID|USER_DOMAIN_ID|USER_DOMAIN_NAME|PASSWORD|PASSCODE`,
	`TOKEN|AUTH_TOKEN|TRUST_ID|APPLICATION_CREDENTIAL_ID|APPLICATION_CREDENTIAL_NAME|APPLICATION_CREDENTIAL_SECRET`,
	`PROJECT_ID|PROJECT_NAME|PROJECT_DOMAIN_ID|PROJECT_DOMAIN_NAME|TENANT_ID|TENANT_NAME`,
	`DOMAIN_ID|DOMAIN_NAME|DEFAULT_DOMAIN|DEFAULT_DOMAIN_ID|DEFAULT_DOMAIN_NAME|SYSTEM_SCOPE`,
	`SERVICE_PROVIDER|REMOTE_PROJECT_ID|REMOTE_PROJECT_NAME|REMOTE_PROJECT_DOMAIN_ID|REMOTE_PROJECT_DOMAIN_NAME`,
	`CACERT|CERT|KEY|URL|ENDPOINT`,
	`([A-Z0-9_]+_)?(REGION_NAME|INTERFACE|ENDPOINT_TYPE|ENDPOINT_OVERRIDE|SERVICE_TYPE|SERVICE_NAME)`,
}, "|") + `)$`)

// clientVariablesIn returns the names of the variables of an environment that direct OpenStack's clients, sorted.
func clientVariablesIn(environ []string) []string {
	var names []string
	for _, assignment := range environ {
		if name, _, _ := strings.Cut(assignment, "="); clientVariables.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// openStackVariables are the variables of OpenStack's clients for one account with its password.
func openStackVariables(base, region string, a account, password string) []variable {
	return []variable{
		{"OS_AUTH_URL", base + authPath},
		{"OS_USERNAME", a.user},
		{"OS_PASSWORD", password},
		{"OS_PROJECT_NAME", a.project},
		{"OS_USER_DOMAIN_NAME", domain},
		{"OS_PROJECT_DOMAIN_NAME", domain},
		{"OS_IDENTITY_API_VERSION", "3"},
		{"OS_REGION_NAME", region},
	}
}
