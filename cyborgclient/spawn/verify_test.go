package spawn_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/matching"
)

// The profile gpu is replaced by one of as many devices, of another class, just
// before the ARQs are made of it.
func TestAProfileThatIsReplacedMeanwhileIsNoticed(t *testing.T) {
	t.Parallel()
	for _, verify := range []bool{true, false} {
		w := newWorld(t, worldOpts{})
		admin := w.cyborg
		w.intercept(t, &interceptor{n: 6, before: func(r *http.Request) {
			if r.Method != http.MethodPost {
				t.Errorf("disturbed %s %s, want the creation of the ARQs", r.Method, r.URL)
			}
			if err := admin.DeleteDeviceProfiles(t.Context(), []string{"gpu"}); err != nil {
				t.Error(err)
			}
			opts := cyborgclient.CreateDeviceProfileOpts{Name: "gpu", Groups: []map[string]string{{"resources:PGPU": "1", "trait:CUSTOM_OTHER": "required"}}}
			if _, err := admin.CreateDeviceProfile(t.Context(), opts); err != nil {
				t.Error(err)
			}
		}}, spawn.Config{VerifyProfile: verify})
		result, err := w.flow.Run(t.Context(), request("gpu"))
		if errors.Is(err, matching.ErrProfileChanged) != verify || (err == nil) == verify {
			t.Errorf("verify %t: got %v", verify, err)
		}
		w.judge(t, result, err)
	}
}
