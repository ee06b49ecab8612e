package placementsim

import (
	"net"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/sim"
)

// inProcess is the address that a client of gophercloud has of a service without a socket.
const inProcess = "http://placement.invalid/"

// RunOption configures the Placement of [Run]: a [Config] or an [Option].
type RunOption interface{ configure(*Config, *[]Option) }

func (c Config) configure(config *Config, _ *[]Option) { *config = c }

func (o Option) configure(_ *Config, list *[]Option) { *list = append(*list, o) }

// Run makes a Placement for a test, as shipped or with the last [Config] in its arguments, and with
// the options among them. An error fails the test. Inside a bubble of testing/synctest it uses
// virtual time; it needs no network and no end.
func Run(t sim.TB, options ...RunOption) *Server {
	t.Helper()
	var config Config
	var list []Option
	for _, option := range options {
		option.configure(&config, &list)
	}
	s, err := New(config, list...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

// Provider returns a client of gophercloud that reaches the service in process. Its requests have
// the token admin, and every endpoint that it looks up is the service:
//
//	client, err := openstack.NewPlacementV1(server.Provider(), gophercloud.EndpointOpts{})
func (s *Server) Provider() *gophercloud.ProviderClient {
	return &gophercloud.ProviderClient{
		HTTPClient:      *s.Client(),
		EndpointLocator: func(gophercloud.EndpointOpts) (string, error) { return inProcess, nil },
	}
}

// Client returns a client that reaches the service in process, regardless of the host of a request.
// Requests without X-Auth-Token are sent with the token admin.
func (s *Server) Client() *http.Client {
	return &http.Client{Transport: asAdmin{simhttp.NewTransport(s)}}
}

// asAdmin adds a token to requests.
type asAdmin struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t asAdmin) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Auth-Token") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("X-Auth-Token", "admin")
	}
	return t.next.RoundTrip(r)
}

// URL serves Placement on a free port of 127.0.0.1 until the test ends, for programs that need a
// socket, and returns its address without a final slash. Each call takes a port of its own. Requests
// need a token, such as admin ([WithTokenVerifier]). A port that cannot be had ends the test. Call it
// outside of a bubble of testing/synctest, in which nothing may wait for a network.
func (s *Server) URL(t sim.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("placementsim: listen: %v", err)
		return ""
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("placementsim: close: %v", err)
		}
		<-ended
	})
	return "http://" + listener.Addr().String()
}
