//go:build clients

package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// ignored is what OpenStack's own clients send and neither the simulator nor the real
// services read; docs/record.md lists the same.
func ignored() map[string]bool {
	return map[string]bool{
		"accelerator.arq.create body device_profile_group_id": true, // upstream reads device_profile_name only
		"accelerator.device.list query limit":                 true, // refused with 400: Unknown argument
	}
}

// checkRead expects that all that was sent to the cloud was read, but for what is ignored.
func (c cloud) checkRead(t *testing.T) {
	t.Helper()
	var base string
	for _, assignment := range c.exports {
		if url, ok := strings.CutPrefix(assignment, "CYSIM_URL="); ok {
			base = strings.Trim(url, `'"`)
		}
	}
	res, err := http.Get(base + "/_sim/unread")
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	var body struct {
		Unread []struct {
			Operation, What string
			From            string `json:"last_from"`
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		t.Error(err)
	}
	for _, u := range body.Unread {
		if !ignored()[u.Operation+" "+u.What] {
			t.Errorf("nobody read: %s %s, of %s", u.Operation, u.What, u.From)
		}
	}
}
