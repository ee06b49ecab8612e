package simcloud_test

import (
	"testing"

	"github.com/gocyborg/gocyborg/simcloud"
)

// The guests, requests and mediated devices of a host that nova-compute knows by its other name are those of one host.
func TestNothingLeaksOnAHostWithAnAlias(t *testing.T) {
	t.Parallel()
	model := simcloud.DefaultModel()
	model.NovaMakesHosts, model.Hosts = true, model.Hosts[:1]
	model.Hosts[0].Name, model.Hosts[0].Fallback = "cn0.example.org", "cn0"
	cloud := simcloud.Run(t, model)
	computeNode(t, cloud.Placement, "cn0")
	must(t, cloud.Cyborg.Report(t.Context()))
	u := login(t, cloud, "admin", "admin")
	s := u.spawn(1, "vgpu", "VGPU:1", "CUSTOM_GPU_NVIDIA")
	if s.host != "cn0" {
		t.Fatalf("spawned on %s", s.host)
	}
	cloud.CheckNoLeaks(t)
	cloud.RemoveGuest(s.uuid)
}
