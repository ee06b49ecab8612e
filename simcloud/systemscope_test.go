package simcloud_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// A token of the system from Keystone is one of the system to the policies of Cyborg: accepted before 2024.2, refused on device profiles
// before the mends of 2026, and refused everywhere since. A reader of the system reads one device profile before 2024.2.
func TestATokenOfTheSystemReachesThePoliciesOfCyborg(t *testing.T) {
	t.Parallel()
	for release, want := range map[fakecyborg.Release]string{
		"zed": "admin 200 200 200, auditor 200 200 200", "2024.1": "admin 200 200 200, auditor 200 200 200",
		"2024.2": "admin 200 403 403, auditor 200 403 403", "16.0.0": "admin 200 403 403, auditor 200 403 403",
		"2026.1": "admin 403 403 403, auditor 403 403 403", "2026.2": "admin 403 403 403, auditor 403 403 403", "master": "admin 403 403 403, auditor 403 403 403",
	} {
		model := simcloud.DefaultModel()
		model.Cyborg.Release = release
		model.Users = append(model.Users, simcloud.User{Name: "auditor", SystemRoles: []string{"reader"}})
		cloud := simcloud.Run(t, model)
		got := ""
		for i, name := range []string{"admin", "auditor"} {
			u := &user{t: t, cloud: cloud}
			res := u.send("POST", "/identity/v3/auth/tokens", "", fmt.Sprintf(`{"auth":{"identity":{"methods":["password"],"password":{"user":
				{"name":%q,"password":%q,"domain":{"id":"default"}}}},"scope":{"system":{"all":true}}}}`, name, simcloud.Password))
			if res.status != http.StatusCreated {
				t.Fatalf("login: %d %s", res.status, res.body)
			}
			u.token = res.header.Get("X-Subject-Token")
			if i > 0 {
				got += ", "
			}
			got += name
			for _, path := range []string{"devices", "device_profiles", "device_profiles/" + cloud.Cyborg.DeviceProfiles()[0].UUID} {
				got += fmt.Sprint(" ", u.send("GET", "/accelerator/v2/"+path, "", "").status)
			}
		}
		if got != want {
			t.Errorf("release %s: %s\nwant %s", release, got, want)
		}
	}
}
