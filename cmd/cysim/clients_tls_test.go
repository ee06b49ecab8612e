//go:build clients

package main

import (
	"slices"
	"strings"
	"testing"
)

// TestOpenStackClientsOverTLS: openstackclient and openstacksdk find the services in the catalog of a cloud with a certificate of
// its own by clouds.yaml alone, and by the printed variables alone.
func TestOpenStackClientsOverTLS(t *testing.T) {
	t.Parallel()
	c := startCloud(t, "--tls-self-signed")
	if url := c.export("CYSIM_URL"); !strings.HasPrefix(url, "https://") {
		t.Fatalf("the cloud is at %s", url)
	}
	if names := column(answer[[]row](t, c, "sim", "resource", "provider", "list"), "name"); !slices.Contains(names, "cn0") {
		t.Errorf("resource providers: %v", names)
	}
	if profiles := answer[[]row](t, c, "sim-svc", "accelerator", "device", "profile", "list"); len(profiles) != 5 {
		t.Errorf("device profiles: %v", profiles)
	}
	if stdout, stderr, status := tryWith(t, c.exports, "openstack", "token", "issue", "-f", "json"); status != 0 || !strings.Contains(stdout, "project_id") {
		t.Errorf("with the exported variables: status %d, %s%s", status, stdout, stderr)
	}
	const script = `
import openstack
cloud = openstack.connect(cloud="sim")
print(len(list(cloud.accelerator.device_profiles())), len(list(cloud.compute.flavors())), cloud.image.get_endpoint().split(":")[0])
`
	if stdout, stderr, status := c.try(t, "/usr/bin/python3", "-c", script); status != 0 || stdout != "5 5 https\n" {
		t.Errorf("openstacksdk: %d %s%s", status, stdout, stderr)
	}
	// Without the authority the cloud is not trusted.
	alone := slices.DeleteFunc(slices.Clone(c.exports), func(v string) bool { return strings.HasPrefix(v, "OS_CACERT=") })
	if _, stderr, status := tryWith(t, alone, "openstack", "token", "issue"); status == 0 || !strings.Contains(strings.ToLower(stderr), "ssl") {
		t.Errorf("without the authority: status %d, %s", status, stderr)
	}
}
