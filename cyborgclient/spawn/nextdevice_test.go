package spawn_test

import (
	"errors"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// If a device cannot be bound, because its handle is in use without a claim, the next device of the host is tried,
// and after Config.MaxAttempts devices the next host.
func TestTheNextDeviceOfTheHost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		hosts, gpus, used, attempts int
		host                        string
		binds                       int
	}{
		"the next device":       {2, 2, 1, 3, "cn0", 2},
		"the next host":         {2, 2, 2, 3, "cn1", 3},
		"as many as attempts":   {2, 4, 3, 2, "cn1", 3},
		"no other device":       {1, 1, 1, 3, "", 1},
		"one attempt, one host": {2, 2, 1, 1, "", 1},
	} {
		bubble(t, name, func(t *testing.T) {
			w := newWorld(t, worldOpts{model: raceModel(tt.hosts, tt.gpus)})
			w.connect(t, w.cloud.Provider(t), spawn.WithConfig(spawn.Config{PlacementOrder: true, MaxAttempts: tt.attempts}))
			all, err := w.flow.Begin(t.Context(), spawn.Request{Instance: secondInstance, Flavor: flavor("gpu")})
			settled(t, err)
			settled(t, walk(t.Context(), all.ReadProfile, all.BuildRequest, all.FindCandidates))
			all.Unwind(t.Context())
			var taken []string
			for n, c := range all.Candidates[:tt.used] { // which another client has bound without a claim
				arqs, err := w.cyborg.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "gpu"})
				settled(t, err)
				settled(t, w.cyborg.BindARQs(t.Context(), []cyborgclient.Binding{{
					ARQ: arqs[0].UUID, Host: "cn0", DeviceRP: c.Mappings["device_profile_0"][0],
					Instance: "11111111-0000-4000-8000-00000000000" + string(rune('0'+n)),
				}}))
				taken = append(taken, arqs[0].UUID)
			}
			w.cloud.ForgetRequests()
			result, err := w.flow.Run(t.Context(), request("gpu"))
			switch {
			case tt.host == "" && (!errors.Is(err, cyborgclient.ErrNoFreeHandle) || len(leftovers(err)) > 0):
				t.Errorf("got %v, want ErrNoFreeHandle", err)
			case tt.host != "" && (err != nil || result.Host != tt.host):
				t.Errorf("got %v, %v, want host %s", result, err, tt.host)
			}
			if binds := w.count("accelerator.arq.bind"); binds != tt.binds {
				t.Errorf("%d binds, want %d", binds, tt.binds)
			}
			settled(t, w.cyborg.DeleteARQs(t.Context(), taken))
			w.checkPromise(t, result, err)
		})
	}
}
