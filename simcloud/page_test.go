package simcloud_test

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/simcloud"
)

var tags = regexp.MustCompile(`<[^>]*>`)

// section is a part of the status page as text, and as HTML.
func (u *user) section(query string) (text, markup string) {
	u.t.Helper()
	answer := u.send("GET", "/_sim/?part="+query, "", "")
	if answer.status != 200 {
		u.t.Fatalf("%s: %d %s", query, answer.status, answer.body)
	}
	return html.UnescapeString(tags.ReplaceAllString(answer.body, "")), answer.body
}

// The page, GET /_sim/leaks and the leak check find the same: a leak, and what a spawn in progress holds.
func TestThePageSaysWhatTheLeakCheckSays(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	u := login(t, cloud, "admin", "admin")
	gpu := u.spawn(1, "gpu", "PGPU:1", "CUSTOM_GPU_NVIDIA")
	text, _ := u.section("leaks")
	if !strings.Contains(text, "Nothing leaked.") {
		t.Errorf("a consistent cloud: %s", text)
	}
	u.do("DELETE", "/placement/allocations/"+gpu.uuid, placement, nil, 204, nil)
	u.claimDirectly(instance(2), cloud.ProviderUUID("cn1"), "VCPU")
	begun := u.createARQs("gpu")

	var listed struct{ Leaks []simcloud.Leak }
	must(t, json.Unmarshal([]byte(u.send("GET", "/_sim/leaks", "", "").body), &listed))
	text, markup := u.section("leaks")
	if !strings.Contains(text, "3 leaks. ") || len(listed.Leaks) != 3 || len(cloud.Leaks()) != 3 {
		t.Errorf("%d and %d leaks, on the page %s", len(listed.Leaks), len(cloud.Leaks()), text)
	}
	for i, l := range listed.Leaks {
		if !strings.Contains(text, l.Text) || l != cloud.Leaks()[i] {
			t.Errorf("the page lacks %s", l.Text)
		}
	}
	for _, link := range []string{"?arqs=" + begun[0] + "#arqs", "?arqs=" + gpu.arq.UUID + "#arqs", "?arqs=" + instance(2) + "#arqs"} {
		if !strings.Contains(markup, link) {
			t.Errorf("the page lacks the link %s: %s", link, markup)
		}
	}
	if text, _ := u.section("hosts"); !strings.Contains(text, "PGPU 0 of 1 used, 1 bound without an allocation") {
		t.Errorf("the device of %s is shown as free: %s", gpu.host, text)
	}
}

// The hosts that cannot serve a request come before those that can.
func TestThePageExplainsFailingHostsFirst(t *testing.T) {
	t.Parallel()
	model := simcloud.ScaleModel(12, 1)
	cloud := simcloud.Run(t, model)
	u := login(t, cloud, "admin", "admin")
	u.claimDirectly(instance(1), cloud.ProviderUUID("cn9"), "VCPU")
	text, _ := u.section("explain&query=resources=VCPU:64")
	if !strings.Contains(text, "11 of 12 hosts are candidates.\nhost cn9: the group without suffix: cn9 has 63 of VCPU left (1 of 64 used)host cn0: candidate") {
		t.Errorf("the page: %s", text)
	}
	if text, _ := u.section("hosts"); !strings.Contains(text, "12 hosts: ") || !strings.Contains(text, "VCPU 1 of 768 used") {
		t.Errorf("totals: %s", text)
	}
	if text, _ := u.section("now"); !strings.HasPrefix(text, "Cyborg 2026.2, Nova 2026.2, 12 hosts, ") {
		t.Errorf("the title: %s", text)
	}
}

func TestTheFormOfAFaultOffersWholeServices(t *testing.T) {
	t.Parallel()
	_, markup := login(t, simcloud.Run(t), "admin", "admin").section("operations")
	for _, service := range []string{"identity", "placement", "accelerator", "compute", "image"} {
		if !strings.Contains(markup, `<option value="`+service+`.*"`) {
			t.Errorf("the form lacks %s.*", service)
		}
	}
}
