package simcloud_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestTheWholeCloudUsesTheManualClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := manual()
		m := simcloud.Model{TokenLifetime: 10 * time.Minute}
		m.Cyborg = fakecyborg.Config{AsyncBind: true, BindDelay: 30 * time.Second}
		cloud := simcloud.Run(t, m, simcloud.WithClock(clock))
		u := login(t, cloud, "admin", "admin")
		provider, host := u.claim(instance(1), "PGPU:1", "CUSTOM_GPU_NVIDIA")
		arq := u.createARQs("gpu")[0]
		u.bind(arq, instance(1), provider, host)
		synctest.Wait()
		state := func() fakecyborg.State {
			return cloud.Cyborg.ARQs()[0].State
		}
		if got := state(); got != fakecyborg.StateBindStarted {
			t.Errorf("before its time: %s", got)
		}
		if status, text := ask(t, cloud, "POST", "/_sim/clock", `{"advance": "31s"}`); status != 200 || !strings.Contains(text, "2026-01-01T00:00:31Z") {
			t.Errorf("advance: %d %s", status, text)
		}
		synctest.Wait()
		if got := state(); got != fakecyborg.StateBound {
			t.Errorf("after the delay: %s", got)
		}
		clock.Advance(10 * time.Minute)
		if got := u.send("GET", "/accelerator/v2/devices", accelerator, ""); got.status != http.StatusUnauthorized {
			t.Errorf("with an expired token: %d", got.status)
		}
	})
}

func TestOnlyAManualClockCanBeAdvanced(t *testing.T) {
	t.Parallel()
	wall := simcloud.Run(t)
	if status, text := ask(t, wall, "POST", "/_sim/clock", `{"advance": "1s"}`); status != 409 || !strings.Contains(text, "--manual-clock") {
		t.Errorf("the machine's clock: %d %s", status, text)
	}
	var shown struct {
		Clock struct {
			Now    time.Time
			Manual bool
		}
	}
	if status, text := ask(t, wall, "GET", "/_sim/clock", ""); status != 200 || json.Unmarshal([]byte(text), &shown) != nil || shown.Clock.Manual || shown.Clock.Now.IsZero() {
		t.Errorf("the machine's clock: %d %s", status, text)
	}
	clock := manual()
	start := clock.Now()
	cloud := simcloud.Run(t, simcloud.WithClock(clock))
	for _, body := range []string{"", "{}", `{"advance": "-1s"}`, `{"advance": 5}`, `{"advance": "soon"}`, `{"to": "1s"}`,
		`{"advance": "1s", "now": "2026-01-01T00:00:00Z"}`, `{"now": "tomorrow"}`, `{"now": "9999-01-01T00:00:00Z"}`, `{"now": "0001-01-01T00:00:00Z"}`} {
		if status, text := ask(t, cloud, "POST", "/_sim/clock", body); status != 400 || !strings.HasPrefix(text, "clock: ") {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if !clock.Now().Equal(start) {
		t.Errorf("a refused body moved the clock to %s", clock.Now())
	}
}

// No time that the clock shows, nor one that follows from it, makes a cloud whose state or answers cannot be written; and
// every time can be left again.
func TestAManualClockStaysWithinTheYears(t *testing.T) {
	t.Parallel()
	clock := manual()
	cloud := simcloud.Run(t, simcloud.WithClock(clock))
	for range 40 { // a Duration is 292 years at most
		if status, text := ask(t, cloud, "POST", "/_sim/clock", `{"advance": "2540400h"}`); status != 200 && (status != 400 || !strings.Contains(text, "want 1970 to 9998")) {
			t.Fatalf("%d %s", status, text)
		}
	}
	if year := clock.Now().Year(); year < 9700 || year > 9998 {
		t.Errorf("the clock is in the year %d", year)
	}
	for _, now := range []string{"9998-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2026-01-01T00:00:00Z"} {
		if status, text := ask(t, cloud, "POST", "/_sim/clock", `{"now": "`+now+`"}`); status != 200 || !strings.Contains(text, now) {
			t.Fatalf("set to %s: %d %s", now, status, text)
		}
		u := login(t, cloud, "admin", "admin")
		if got := u.send("GET", "/accelerator/v2/devices", accelerator, ""); got.status != 200 {
			t.Errorf("%s: devices %d", now, got.status)
		}
		state, err := cloud.Dump()
		if err != nil {
			t.Fatalf("%s: %v", now, err)
		}
		if err := cloud.Load(state); err != nil {
			t.Errorf("%s: %v", now, err)
		}
		if _, text := ask(t, cloud, "GET", "/_sim/requests", ""); !json.Valid([]byte(text)) {
			t.Errorf("%s: the record cannot be written: %.200s", now, text)
		}
	}
}

func TestRunTakesAModelAndOptions(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, simcloud.Model{Region: "north"}, simcloud.WithClock(manual()))
	if cloud.Model().Region != "north" || !cloud.Cyborg.DeviceProfiles()[0].CreatedAt.Equal(manual().Now()) {
		t.Errorf("got region %s, device profiles %v", cloud.Model().Region, cloud.Cyborg.DeviceProfiles())
	}
}

// A client that gives up does not leave an advance behind, for which the next would wait.
func TestAnAdvanceEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := manual()
		cloud := simcloud.Run(t, simcloud.WithClock(clock))
		ctx, giveUp := context.WithCancel(t.Context())
		go func() {
			_ = sim.WaitAgain(t.Context(), clock, time.Minute)
			giveUp()
		}()
		synctest.Wait()
		for path, body := range map[string]string{"/_sim/clock": `{"advance": "24h"}`, "/_sim/": "do=advance&by=24h"} {
			r := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body))
			if path != "/_sim/clock" {
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			w := httptest.NewRecorder()
			cloud.Handler().ServeHTTP(w, r)
			if !strings.Contains(w.Body.String(), "context canceled; it is at 2026-01-01T00:01:00Z") {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}
