package externalevent_test

import (
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestHasRole(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	identity, err := openstack.NewIdentityV3(cloud.Provider(t), gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := cloud.ServiceToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	member, err := cloud.ProviderClient(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	r := externalevent.NewRegistry(externalevent.WithAuthorize(externalevent.HasRole(identity, "service", "admin")))
	cloud.HandleEvents(r.Handler())
	post := func(token string) int {
		prepare(t, r, arq1)
		return answer(r.Handler(), request(events(tagged(arq1)), header("X-Auth-Token", token))).Code
	}
	for name, tt := range map[string]struct {
		token string
		want  int
	}{
		"service":    {service, http.StatusOK},
		"admin":      {cloud.Provider(t).Token(), http.StatusOK},
		"member":     {member.Token(), http.StatusUnauthorized},
		"unknown":    {"guessed", http.StatusUnauthorized},
		"none":       {"", http.StatusUnauthorized},
		"restricted": {restricted(t, identity), http.StatusUnauthorized},
	} {
		if got := post(tt.token); got != tt.want {
			t.Errorf("%s: answered %d, want %d", name, got, tt.want)
		}
	}
	compute, err := openstack.NewComputeV2(cloud.Provider(t), gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	w := prepare(t, r, arq1)
	if _, err := externalevent.Send(t.Context(), compute, []externalevent.Event{completed(arq1)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(t.Context(), 0); w.States()[0].Status != externalevent.StatusCompleted {
		t.Errorf("the event that Nova forwards is refused: %v", err)
	}
	if err := cloud.Faults().Set(fault.Rule{Operation: fault.TokenValidate, Action: fault.Status, Status: 500, Times: -1}); err != nil {
		t.Fatal(err)
	}
	if got := post(service); got != http.StatusUnauthorized {
		t.Errorf("without Keystone: answered %d, want 401", got)
	}
}

// restricted is a token of the client's user that access rules restrict to events.
func restricted(t *testing.T, identity *gophercloud.ServiceClient) string {
	t.Helper()
	user, err := tokens.Get(t.Context(), identity, identity.Token()).ExtractUser()
	if err != nil {
		t.Fatal(err)
	}
	credential, err := applicationcredentials.Create(t.Context(), identity, user.ID, applicationcredentials.CreateOpts{
		Name: "events", Secret: "s3",
		AccessRules: []applicationcredentials.AccessRule{{Service: "compute", Path: "/**", Method: http.MethodPost}},
	}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	token, err := tokens.Create(t.Context(), identity, &gophercloud.AuthOptions{
		ApplicationCredentialID: credential.ID, ApplicationCredentialSecret: "s3",
	}).ExtractTokenID()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
