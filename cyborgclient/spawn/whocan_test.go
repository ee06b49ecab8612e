package spawn_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
)

// users are the users of a flow for Cyborg, with or without a service token.
func users() map[string]func(*testing.T, *site) {
	connect := func(t *testing.T, s *site, cyborg, placement string, opts ...spawn.Option) {
		opts = append([]spawn.Option{spawn.WithPlacementProvider(s.provider(t, placement))}, opts...)
		s.connect(t, s.provider(t, cyborg), opts...)
		s.renew(t)
	}
	return map[string]func(*testing.T, *site){
		"member, service token, Placement's user": func(t *testing.T, s *site) { connect(t, s, "demo", "nova") },
		"administrator, service token":            func(t *testing.T, s *site) { connect(t, s, "admin", "admin") },
		"service user alone": func(t *testing.T, s *site) {
			connect(t, s, "nova", "nova", spawn.WithServiceProvider(s.provider(t, "nova")))
		},
	}
}

// rights are the actions of an agent for an instance with a device profile.
func rights() map[string]func(*testing.T, *site, string) error {
	return map[string]func(*testing.T, *site, string) error{
		"spawn": func(t *testing.T, s *site, profile string) error {
			i, err := s.launch(t.Context(), profile)
			if err == nil {
				s.running(t, i, true)
				s.sound(t)
				settled(t, s.ops.Delete(t.Context(), i))
			}
			return err
		},
		"add devices": func(t *testing.T, s *site, profile string) error {
			i, err := s.launch(t.Context(), "")
			settled(t, err) // for it no token is asked what it may do
			req := request(profile)
			result, err := s.flow.AddDevices(t.Context(), req)
			if err == nil {
				i.ARQs = uuidsOf(result.ARQs)
				settled(t, s.guests.Destroy(t.Context(), i))
				settled(t, s.guests.Define(t.Context(), i, result.Domain))
				settled(t, s.guests.Start(t.Context(), i))
				s.sound(t)
			}
			if err != nil { // whom 2027.1 does not let list ARQs cannot delete either
				s.asUsers(t, "admin", "admin")
			}
			settled(t, s.ops.Delete(t.Context(), i))
			return err
		},
		"delete": func(t *testing.T, s *site, profile string) error {
			i, err := s.launch(t.Context(), profile)
			settled(t, err)
			return s.ops.Delete(t.Context(), i)
		},
		"evacuate": func(t *testing.T, s *site, profile string) error {
			i, err := s.launch(t.Context(), profile)
			if err != nil {
				return err
			}
			i = s.evacuated(t, i)
			s.sound(t)
			settled(t, s.ops.Delete(t.Context(), i))
			return nil
		},
		"reconcile": func(t *testing.T, s *site, profile string) error {
			i, err := s.launch(t.Context(), profile)
			if err != nil {
				return err
			}
			settled(t, s.guests.Destroy(t.Context(), i))
			settled(t, s.guests.Undefine(t.Context(), i))
			_, err = s.flow.Reconcile(t.Context(), freeingAll(s.cloud.HostNames()...))
			return err
		},
	}
}

// releaseColumns are a point release of each behaviour of Cyborg.
var releaseColumns = []struct {
	name     string
	releases []fakecyborg.Release
}{
	{"9.0", []fakecyborg.Release{"9.0.0"}}, {"10.0", []fakecyborg.Release{"10.0.0"}}, {"10.1", []fakecyborg.Release{"10.1.0"}},
	{"11.0", []fakecyborg.Release{"11.0.0"}}, {"12.0", []fakecyborg.Release{"12.0.0"}}, {"13.0 to 16.0.0", []fakecyborg.Release{"13.0.0", "16.0.0"}},
	{"14.1, 15.0.1, 16.0.1", []fakecyborg.Release{"14.1.0", "16.0.1"}}, {"17.0", []fakecyborg.Release{"17.0.0"}}, {"2027.1", []fakecyborg.Release{"2027.1"}},
}

const (
	works    = "yes"
	profiles = "no: list device profiles"
)

type whoCanRow struct {
	user, right string
	cells       [9]string
}

// whoCan has what each user of a flow may do on each behaviour of Cyborg, transcribed from the policies of its
// releases: a list of device profiles needs the role reader from 13.0 on (oslo.policy 4.4 enforces the new defaults,
// 206ae19) but for 17.0 (7823492), and a create of ARQs the role member in 14.1, 15.0.1 and 16.0.1 (the mends of
// CVE-2026-40213). A member has both.
var whoCan = []whoCanRow{
	{"member, service token, Placement's user", "spawn", [9]string{works, works, works, works, works, works, works, works, works}},
	{"member, service token, Placement's user", "add devices", [9]string{works, works, works, works, works, works, works, works, works}},
	{"member, service token, Placement's user", "delete", [9]string{works, works, works, works, works, works, works, works, works}},
	{"administrator, service token", "spawn", [9]string{works, works, works, works, works, works, works, works, works}},
	{"administrator, service token", "add devices", [9]string{works, works, works, works, works, works, works, works, works}},
	{"administrator, service token", "delete", [9]string{works, works, works, works, works, works, works, works, works}},
	{"administrator, service token", "evacuate", [9]string{works, works, works, works, works, works, works, works, works}},
	{"administrator, service token", "reconcile", [9]string{works, works, works, works, works, works, works, works, works}},
	{"service user alone", "spawn", [9]string{works, works, works, works, works, profiles, profiles, works, profiles}},
	{"service user alone", "add devices", [9]string{works, works, works, works, works, profiles, profiles, works, profiles}},
}

// No cell leaks. Cyborg 10.1 does not report NVIDIA GPUs, so the test requests an FPGA.
func TestWhatEachUserMayDoOnEachRelease(t *testing.T) {
	t.Parallel()
	for _, row := range whoCan {
		for n, column := range releaseColumns {
			for _, release := range column.releases {
				bubble(t, fmt.Sprintf("%s, %s, %s", row.user, row.right, release), func(t *testing.T) {
					model := releasedModel(release)
					model.Cyborg.UpstreamQuirks = true
					s := newSite(t, worldOpts{model: model})
					users()[row.user](t, s)
					err := rights()[row.right](t, s, "fpga")
					if isAllowed := row.cells[n] == works; isAllowed != (err == nil) {
						t.Errorf("got %v, want %s", err, row.cells[n])
					}
					if err != nil && (!errors.Is(err, cyborgclient.ErrForbidden) || !strings.Contains(err.Error(), "device_profile")) {
						t.Errorf("got %v, want a refused list of device profiles", err)
					}
					s.sound(t)
				})
			}
		}
	}
}

// docs/compat.md has the same table.
func TestThePageSaysWhatEachUserMayDo(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/compat.md")
	settled(t, err)
	var want []string
	for _, row := range whoCan {
		want = append(want, "| "+row.user+" | "+row.right+" | "+strings.Join(row.cells[:], " | ")+" |")
	}
	var got []string
	for line := range strings.Lines(string(page)) {
		if isRow := slices.ContainsFunc(whoCan, func(row whoCanRow) bool { return strings.HasPrefix(line, "| "+row.user+" | ") }); isRow {
			got = append(got, strings.TrimSpace(line))
		}
	}
	checkDiff(t, "rows of docs/compat.md (-want +got)", want, got)
}
