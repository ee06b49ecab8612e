//go:build drill

package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Many callers cancel spawns at random times over real sockets. The errors name every leftover. This test does not
// use synctest, because only real sockets lose a request in transit.
func TestDrillCancelledSpawnsNameTheirLeftovers(t *testing.T) {
	t.Parallel()
	for _, config := range []spawn.Config{{}, {ExclusiveProject: true}} {
		t.Run(fmt.Sprintf("exclusive=%v", config.ExclusiveProject), func(t *testing.T) {
			t.Parallel()
			w := &world{cloud: simcloud.Run(t, simcloud.ScaleModel(8, 8))}
			server := httptest.NewServer(w.cloud.Handler())
			t.Cleanup(server.Close)
			w.connectTo(t, server, config)
			suspects := giveUp(t, w, cancellations)
			for _, leak := range w.cloud.Leaks() {
				switch {
				case leak.Kind == simcloud.LeakARQ && namesARQ(t, w, suspects, leak.Subject):
				case slices.ContainsFunc(suspects, func(l spawn.Leftover) bool { return l.ID == leak.Subject }):
				default:
					t.Errorf("unnamed: %v", leak)
				}
				if config.ExclusiveProject {
					t.Errorf("left: %v", leak)
				}
			}
		})
	}
}

// connectTo connects clients to the cloud through a server's socket.
func (w *world) connectTo(t *testing.T, server *httptest.Server, config spawn.Config) {
	t.Helper()
	logIn := func(user, project string) *gophercloud.ProviderClient {
		provider, err := openstack.NewClient(server.URL + "/identity/v3")
		settled(t, err)
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = callers
		t.Cleanup(transport.CloseIdleConnections)
		provider.HTTPClient = http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			if p, ok := req.Context().Value(patienceKey{}).(*patience); ok && p.seen.Add(1) == p.requests {
				time.AfterFunc(p.rest, p.giveUp)
			}
			return transport.RoundTrip(req)
		})}
		if err := openstack.Authenticate(t.Context(), provider, gophercloud.AuthOptions{
			Username: user, Password: simcloud.Password, DomainName: "Default", AllowReauth: true,
			Scope: &gophercloud.AuthScope{ProjectName: project, DomainName: "Default"},
		}); err != nil {
			t.Fatal(err)
		}
		return provider
	}
	w.connect(t, logIn("admin", "admin"), spawn.WithConfig(config), spawn.WithServiceProvider(logIn("nova", "service")), spawn.WithEvents(nil))
}

const (
	cancellations = 2000
	callers       = 64
)

// patience is how long a caller waits: for a number of requests, and a time after the last one.
type patience struct {
	requests int64
	rest     time.Duration
	giveUp   context.CancelFunc
	seen     atomic.Int64
}

type patienceKey struct{}

// giveUp runs spawns that are cancelled, releases those that succeeded first, and returns the leftovers that the
// errors and the flow name.
func giveUp(t *testing.T, w *world, spawns int) []spawn.Leftover {
	t.Helper()
	var (
		mu    sync.Mutex
		named []spawn.Leftover
		steps = map[spawn.Step]int{}
		wait  sync.WaitGroup
		slots = make(chan struct{}, callers)
	)
	random := rand.New(rand.NewPCG(1, 2))
	for range spawns {
		id := uuid.Must(uuid.NewRandomFromReader(uuidSource{random})).String()
		const requests = 10 // of one spawn
		p := &patience{requests: 1 + random.Int64N(requests), rest: time.Duration(random.Int64N(int64(5 * time.Millisecond)))}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p.giveUp = cancel
			ctx = context.WithValue(ctx, patienceKey{}, p)
			req := request("gpu")
			req.Instance = id
			_, err := w.flow.Run(ctx, req)
			var failure *spawn.Error
			switch {
			case err == nil:
				if err = w.flow.Release(t.Context(), id); err != nil {
					t.Errorf("release: %v", err)
				}
			case errors.As(err, &failure):
				mu.Lock()
				steps[failure.Step]++
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got error %v, want the end of the context", err)
				}
				named = append(named, failure.Leftovers...)
				mu.Unlock()
			default:
				t.Errorf("got error %v", err)
			}
		})
	}
	wait.Wait()
	t.Logf("cancelled in steps %v, %d suspects", steps, len(named))
	return append(named, w.flow.Suspects()...)
}

// uuidSource is a source of random bytes.
type uuidSource struct{ *rand.Rand }

// Read fills p.
func (s uuidSource) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.Uint32())
	}
	return len(p), nil
}
