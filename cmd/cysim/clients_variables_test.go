//go:build clients

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// readVariables prints the variables of the environment that the installed openstackclient reads
// to find a cloud: the variables of its options, and of the options of the login plugins that are
// used without OS_AUTH_TYPE.
const readVariables = `
import re, inspect
import keystoneauth1.adapter, keystoneauth1.loading.cli, keystoneauth1.loading.session, openstack.config.loader, osc_lib.api.auth, osc_lib.shell
from keystoneauth1 import loading
for module in (keystoneauth1.adapter, keystoneauth1.loading.cli, keystoneauth1.loading.session, osc_lib.api.auth, osc_lib.shell):
    for name in re.findall(r"(?:environ\.get|\benv)\(\s*'(OS_\w+)'", inspect.getsource(module)):
        print(name)
for name in re.findall(r"_get_envvar\(\s*'(OS_\w+)'", inspect.getsource(openstack.config.loader)):
    print(name)
for plugin in ("password", "token", "admin_token"):
    for option in loading.get_plugin_loader(plugin).get_options():
        for o in [option] + option.deprecated:
            print("OS_" + o.dest.upper())
`

func TestTheVariablesOfOpenStackClientsAreKnown(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-W", "ignore", "-c", readVariables).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	names := strings.Fields(string(out))
	if len(names) < 50 {
		t.Errorf("found %d variables", len(names))
	}
	harmless := map[string]string{
		"OS_API_VERSION": "the version of an API", "OS_PREFER_IPV6": "an address of the same service", "OS_FORCE_IPV4": "an address of the same service",
	}
	for _, name := range names {
		if harmless[name] == "" && !clientVariables.MatchString(name) {
			t.Errorf("openstackclient reads %s, which a shell keeps", name)
		}
	}
}
