//go:build clients || suites

package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// ignored is the unrecognized input of OpenStack's own clients, which the real services do
// not read either; docs/record.md lists the same.
func ignored() map[string]bool {
	return map[string]bool{
		"accelerator.arq.create body device_profile_group_id": true, // upstream reads device_profile_name only
		"accelerator.device.list query limit":                 true, // refused with 400: Unknown argument
		// gophercloud sends its own filters under the name "-".
		"identity.project.list query -": true,
		"identity.user.list query -":    true,
	}
}

// checkUnrecognized fails the test if the record has unrecognized input that is not in ignored.
func (c cloud) checkUnrecognized(t *testing.T) {
	t.Helper()
	var base string
	for _, assignment := range c.exports {
		if url, ok := strings.CutPrefix(assignment, "CYSIM_URL="); ok {
			base = strings.Trim(url, `'"`)
		}
	}
	res, err := http.Get(base + "/_sim/unrecognized")
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	var body struct {
		Unrecognized []struct {
			Operation, What string
			From            string `json:"last_from"`
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		t.Error(err)
	}
	for _, u := range body.Unrecognized {
		if !ignored()[u.Operation+" "+u.What] {
			t.Errorf("unrecognized: %s %s, from %s", u.Operation, u.What, u.From)
		}
	}
}
