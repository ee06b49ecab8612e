package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocations"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// provider logs in as a user.
func (w *world) provider(t *testing.T, user string) *gophercloud.ProviderClient {
	t.Helper()
	provider, err := w.cloud.ProviderClient(t.Context(), user)
	settled(t, err)
	return provider
}

// asUsers gives the site a flow with a token of one user for Cyborg and of another for Placement.
func (s *site) asUsers(t *testing.T, cyborg, placement string) {
	t.Helper()
	s.connect(t, s.provider(t, cyborg), spawn.WithPlacementProvider(s.provider(t, placement)))
	s.renew(t)
}

// Nova uses three tokens: the user's token and a service token for Cyborg, and its own token for Placement.
func TestTheTokenForCyborgDecides(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cyborg, placement, project string // users, and the project of the request
		want                       error
		owner                      string // of ARQs and allocation
	}{
		{"demo", "admin", "", nil, "demo"},
		{"demo", "admin", "demo", nil, "demo"},
		{"demo", "nova", "demo", nil, "demo"},
		{"demo", "nova", "", nil, "demo"},
		{"admin", "nova", "", nil, "admin"},
		{"admin", "nova", "demo", nil, "demo"},
		{"demo", "admin", "admin", spawn.ErrRequest, ""},
		{"demo", "demo", "", cyborgclient.ErrForbidden, ""}, // by Placement
	} {
		bubble(t, fmt.Sprintf("Cyborg %s, Placement %s, project %q", tt.cyborg, tt.placement, tt.project), func(t *testing.T) {
			s := newSite(t, worldOpts{})
			s.asUsers(t, tt.cyborg, tt.placement)
			req := request("gpu")
			if tt.project != "" {
				req.ProjectID = s.cloud.ProjectID(tt.project)
			}
			s.cloud.ForgetRequests()
			result, err := s.flow.Run(t.Context(), req)
			if tt.want != nil {
				if !errors.Is(err, tt.want) && !gophercloud.ResponseCodeIs(err, http.StatusForbidden) || err == nil {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				s.checkWrites(t)
				return
			}
			settled(t, err)
			i := spawn.InstanceOf(req, result)
			settled(t, s.guests.Define(t.Context(), i, result.Domain))
			settled(t, s.guests.Start(t.Context(), i))
			checkDiff(t, "projects of ARQ and allocation (-want +got)", []string{s.cloud.ProjectID(tt.owner), s.cloud.ProjectID(tt.owner)}, []string{result.ARQs[0].ProjectID, s.projectOf(t, instance)})
			settled(t, s.ops.Stop(t.Context(), i))
			settled(t, s.ops.Start(t.Context(), i))
			settled(t, s.ops.Delete(t.Context(), i))
			s.cloud.CheckNoLeaks(t)
		})
	}
}

// The ARQs of an administrator's instance stay bound if a member's token is used with a Cyborg that hides them.
func TestAnInstanceThatCyborgHidesIsNotReleasedWithPlacementsToken(t *testing.T) {
	t.Parallel()
	for op, free := range releases() {
		bubble(t, op, func(t *testing.T) {
			s := serviceSite(t, true)
			i := s.spawn(t, "gpu") // of the project admin
			before := s.usage(t, i)
			s.asUsers(t, "demo", "admin")
			if err := free(s, t.Context(), i); !errors.Is(err, spawn.ErrHidden) {
				t.Errorf("got %v, want ErrHidden", err)
			}
			s.logIn(t, "admin")
			checkDiff(t, "usage (-before +after)", before, s.usage(t, i))
		})
	}
}

// userOf returns the client of a user, made from a token or from a provider.
func (s *site) userOf(t *testing.T, user, from string) *cyborgclient.Client {
	t.Helper()
	provider := s.provider(t, user)
	if from == "provider" {
		client, err := s.flow.Cyborg().ForProvider(provider)
		settled(t, err)
		return client
	}
	client, err := s.flow.Cyborg().ForToken(t.Context(), provider.Token())
	settled(t, err)
	return client
}

// The user's token comes with the request. The agent's own token is of a service user.
func TestAUsersTokenIsUsedForCyborgOnly(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"token", "provider"} {
		bubble(t, from, func(t *testing.T) {
			s := newSite(t, worldOpts{})
			s.asUsers(t, "nova", "nova")
			own := s.flow
			s.flow = own.As(s.userOf(t, "demo", from))
			s.renew(t)
			i := s.spawn(t, "gpu")
			demo := s.cloud.ProjectID("demo")
			if arq := s.cloud.Cyborg.ARQs()[0]; arq.ProjectID != demo || s.projectOf(t, i.UUID) != demo || i.ProjectID != demo {
				t.Errorf("ARQ of project %s, allocation of %s, instance of %s, want %s", arq.ProjectID, s.projectOf(t, i.UUID), i.ProjectID, demo)
			}
			settled(t, s.ops.HardReboot(t.Context(), i, nil))
			_, err := own.Reconcile(t.Context(), spawn.ReconcileOpts{Hosts: []string{i.Host}, Living: allLiving})
			settled(t, err)
			settled(t, s.ops.Delete(t.Context(), i))
			s.cloud.CheckNoLeaks(t)
		})
	}
}

// revoke revokes the token of a provider client.
func revoke(t *testing.T, provider *gophercloud.ProviderClient) {
	t.Helper()
	keystone := &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: provider.IdentityBase + "v3/", Type: "identity"}
	settled(t, tokens.Revoke(t.Context(), keystone, provider.Token()).Err)
}

// projectOf is the project of an allocation, read with Placement's own user.
func (w *world) projectOf(t *testing.T, instance string) string {
	t.Helper()
	placement := w.placement(t)
	placement.Microversion = "1.12"
	held, err := allocations.Get(t.Context(), placement, instance).Extract()
	settled(t, err)
	return *held.ProjectID
}

// A user's token cannot be renewed. The ARQs that were bound with it are deleted with the agent's own token, if
// Cyborg shows them to that token: a 404 may mean that Cyborg hides the ARQ.
func TestTheARQsOfAnExpiredTokenAreDeletedWithTheAgentsToken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		own, user, project string
		want               int // ARQs that remain, and are named
	}{
		{"admin", "demo", "", 0}, {"nova", "demo", "", 1}, {"admin", "admin", "demo", 0}, {"nova", "admin", "demo", 1}, {"member", "admin", "demo", 1},
	} {
		bubble(t, fmt.Sprintf("%+v", tt), func(t *testing.T) {
			model := simcloud.DefaultModel()
			model.Cyborg.UpstreamQuirks = true
			model.Users = append(model.Users, simcloud.User{Name: "member", Roles: map[string][]string{"admin": {"member"}}}) // of the user's project
			s := newSite(t, worldOpts{model: &model})
			s.asUsers(t, tt.own, "nova")
			user := s.provider(t, tt.user)
			client, err := s.flow.Cyborg().ForToken(t.Context(), user.Token())
			settled(t, err)
			s.flow = s.flow.As(client)
			req := request("gpu")
			if tt.project != "" {
				req.ProjectID = s.cloud.ProjectID(tt.project)
			}
			guests := &guestFuncs{start: func(context.Context, sim.Guest) error {
				revoke(t, user)
				return spawn.ErrAbort
			}}
			_, err = s.flow.On(guests).Run(t.Context(), req)
			if !errors.Is(err, spawn.ErrAbort) {
				t.Errorf("got %v, want ErrAbort", err)
			}
			if arqs := s.cloud.Cyborg.ARQs(); len(arqs) != tt.want || len(leftovers(err)) != tt.want {
				t.Errorf("%v are there, and %v named; want %d", arqs, leftovers(err), tt.want)
			}
		})
	}
}

// A token that is unknown to Keystone or invalid in a header is refused before a request to Cyborg.
func TestATokenWithoutAnOwnerMakesNoClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	for token, want := range map[string]error{
		"unknown": cyborgclient.ErrUnauthorized, "": cyborgclient.ErrInvalid, "a\nb": cyborgclient.ErrInvalid,
	} {
		if _, err := w.flow.Cyborg().ForToken(t.Context(), token); !errors.Is(err, want) {
			t.Errorf("token %q: got %v, want %v", token, err, want)
		}
	}
	if flow := w.flow.As(nil); flow.Cyborg() != w.flow.Cyborg() {
		t.Error("without a user the flow has another client")
	}
	alone, err := cyborgclient.NewWithEndpoint("http://simcloud.invalid/accelerator/v2", "x", cyborgclient.WithTransport(w.cloud.Transport()))
	settled(t, err)
	if _, err := alone.ForToken(t.Context(), "x"); !errors.Is(err, cyborgclient.ErrInvalid) {
		t.Errorf("a client without a Keystone: got %v, want ErrInvalid", err)
	}
	if _, err := w.flow.Cyborg().ForProvider(nil); !errors.Is(err, cyborgclient.ErrInvalid) {
		t.Errorf("got %v, want ErrInvalid", err)
	}
}

// Since 14.1.0 Cyborg shows deployables to administrators only, and in 2027.1 to managers. A member's token can still
// add devices to a running instance and release them. It adds no device if an interrupted attempt has already claimed
// one.
func TestAMemberWhoMayNotReadDevicesAddsThem(t *testing.T) {
	t.Parallel()
	bubble(t, "a running instance", func(t *testing.T) {
		s := newSite(t, worldOpts{})
		s.asUsers(t, "demo", "nova")
		s.fail(t, fault.Rule{Operation: fault.DeployableList, Times: -1, Action: fault.Status, Status: http.StatusForbidden})
		i := s.spawn(t, "")
		before := s.held(instance)
		req := request("gpu")
		for _, name := range []string{"added", "added again"} {
			result, err := s.flow.AddDevices(t.Context(), req)
			settled(t, err)
			if _, err := s.flow.AddDevices(t.Context(), req); !errors.Is(err, spawn.ErrRequest) {
				t.Errorf("%s: a second device: got %v, want ErrRequest", name, err)
			}
			settled(t, s.flow.ReleaseDevices(t.Context(), result.Instance))
			checkDiff(t, name+": held after the release (-want +got)", before, s.held(instance))
		}
		settled(t, s.ops.Delete(t.Context(), i))
		s.sound(t)
	})
}

// The owner of an instance programs its region if Cyborg allows it: for every token before the fixes of
// CVE-2026-40213, and later with run-time programming, an option of the simulator that follows the specification.
// Placement, which knows the region, is called with another user, or refuses the owner's token. If Cyborg hides
// deployables from the owner, the agent's own token finds the region.
func TestTheOwnerProgramsARegion(t *testing.T) {
	t.Parallel()
	const program, list = "cyborg:deployable:program: the default policy requires the role admin", "cyborg:deployable:get_all: the default policy requires the role "
	for _, tt := range []struct {
		release         fakecyborg.Release
		quirks, runtime bool
		refused         string
	}{
		{"9.0.0", true, false, ""}, {"12.0.0", true, false, ""}, {"16.0.0", true, false, ""}, {"16.0.1", true, false, list + "admin"},
		{"17.0.0", false, true, ""}, {"17.0.0", false, false, program},
		{"2027.1", false, true, list + "manager"},
		{"2027.1", false, false, list + "manager"},
	} {
		for _, user := range []string{"nova", "demo", "agent"} {
			bubble(t, fmt.Sprintf("%s, quirks %t, run-time programming %t, Placement's user %s", tt.release, tt.quirks, tt.runtime, user), func(t *testing.T) {
				model := programModel()
				model.Cyborg.Release, model.Cyborg.UpstreamQuirks, model.Cyborg.RuntimeProgramming = tt.release, tt.quirks, tt.runtime
				s := newSite(t, worldOpts{model: model})
				s.asUsers(t, "demo", "nova")
				i := s.spawn(t, "fpga")
				flow, refused := s.flow, tt.refused
				switch user {
				case "demo":
					s.asUsers(t, "demo", "demo")
					flow = s.flow
				case "agent": // with the user's token for Cyborg
					s.asUsers(t, "admin", "nova")
					client, err := s.flow.Cyborg().ForProvider(s.provider(t, "demo"))
					settled(t, err)
					flow = s.flow.As(client)
					if refused != "" {
						refused = program
					}
					if tt.runtime {
						refused = ""
					}
				}
				done, err := flow.Program(t.Context(), spawn.ProgramRequest{Instance: i.UUID, ARQ: i.ARQs[0], FunctionName: "gzip"})
				switch {
				case refused == "" && (err != nil || done.Image != imageGzip || done.After.UUID == ""):
					t.Errorf("got %+v, %v, want image %s", done, err, imageGzip)
				case refused != "" && (!errors.Is(err, cyborgclient.ErrForbidden) || !strings.Contains(err.Error(), refused)):
					t.Errorf("got %v, want that %s", err, refused)
				}
				if refused == program && !strings.Contains(err.Error(), "; its owner may program it only where Cyborg allows run-time programming") {
					t.Errorf("%v does not name who may", err)
				}
				s.asUsers(t, "demo", "nova")
				settled(t, s.ops.Delete(t.Context(), i))
				s.sound(t)
			})
		}
	}
}
