//go:build clients || suites

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
)

// ignored is the unrecognized input of OpenStack's own clients, which the real services do
// not read either; docs/dev/record.md lists the same.
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
	client := new(http.Client)
	if ca, err := os.ReadFile(c.export("OS_CACERT")); err == nil {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca)
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	}
	res, err := client.Get(c.export("CYSIM_URL") + "/_sim/unrecognized")
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

// export is a variable that cysim printed, empty without it.
func (c cloud) export(name string) string {
	for _, assignment := range c.exports {
		if value, ok := strings.CutPrefix(assignment, name+"="); ok {
			return strings.Trim(value, `'"`)
		}
	}
	return ""
}
