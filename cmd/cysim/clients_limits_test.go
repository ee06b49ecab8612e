//go:build clients

package main

import "testing"

// An operator limits a project's FPGAs as docs/requests.md says.
func TestOpenStackClientLimits(t *testing.T) {
	t.Parallel()
	c := startCloud(t)
	registered := answer[row](t, c, "sim", "registered", "limit", "create", "--service", "nova", "--region", "RegionOne", "--default-limit", "2", "class:FPGA")
	if registered["default_limit"] != 2.0 || registered["resource_name"] != "class:FPGA" || registered["region_id"] != "RegionOne" {
		t.Errorf("registered limit: %v", registered)
	}
	limit := answer[row](t, c, "sim", "limit", "create", "--service", "nova", "--project", "demo", "--region", "RegionOne", "--resource-limit", "5", "class:FPGA")
	if limit["resource_limit"] != 5.0 || limit["domain_id"] != nil {
		t.Errorf("limit: %v", limit)
	}
	if own := answer[[]row](t, c, "sim-demo", "limit", "list"); len(own) != 1 || own[0]["Resource Limit"] != 5.0 {
		t.Errorf("what the project sees: %v", own)
	}
	if others := answer[[]row](t, c, "sim", "limit", "list"); len(others) != 0 {
		t.Errorf("what another project's token sees: %v", others)
	}
	if set := answer[row](t, c, "sim", "limit", "set", "--resource-limit", "6", text(t, limit, "id")); set["resource_limit"] != 6.0 {
		t.Errorf("changed limit: %v", set)
	}
	id := text(t, registered, "id")
	c.refused(t, "because there are project limits associated with it", "sim", "registered", "limit", "delete", id)
	c.refused(t, "HTTP 403", "sim-demo", "registered", "limit", "create", "--service", "nova", "--default-limit", "2", "class:VCPU")
	for _, args := range [][]string{{"limit", "delete", text(t, limit, "id")}, {"registered", "limit", "delete", id}} {
		if _, stderr, status := c.try(t, "openstack", append([]string{"--os-cloud", "sim"}, args...)...); status != 0 {
			t.Errorf("%v: status %d, %s", args, status, stderr)
		}
	}
	if left := answer[[]row](t, c, "sim", "registered", "limit", "list"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
