package simcloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/statuspage"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud/internal/client"
)

// WithExternalPlacement gives a cloud a Placement that is not simulated, such as a real
// one. The URL is its root, such as http://127.0.0.1:8778 or https://cloud.example/placement, without user name, password and query.
// The token is an administrator's; it is sent in X-Auth-Token, also in place of the callers'
// own. It is not a field of Model, which clients can read.
//
// The cloud creates its compute roots there, its Cyborg reports devices to it over HTTP, and
// requests to the cloud's own /placement are forwarded to it. Closing the cloud removes what
// the cloud created there, except the names of custom traits and classes.
//
// Fault rules do not apply to it, its requests are not recorded, and Cloud.Placement stays
// empty; the leak check reads it through its API.
func WithExternalPlacement(url, token string) Option {
	return func(s *settings) { s.external = &externalConfig{url, token} }
}

type externalConfig struct{ url, token string }

// external is the connection to an external Placement.
type external struct {
	api   *client.Client
	proxy http.Handler
}

// newExternal makes the connection; the error matches [ErrModel].
func (c *Cloud) newExternal(e externalConfig) (*external, error) {
	if err := simhttp.CheckBase(e.url); err != nil {
		return nil, fmt.Errorf("%w: external placement: %w", ErrModel, err)
	}
	target, err := url.Parse(e.url)
	if err != nil {
		return nil, err // it was checked
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true // the server of a test may close first
	x := &external{api: &client.Client{Peer: simhttp.Peer{Agent: "simcloud", Endpoint: sim.Endpoint{
		URL: e.url, Client: &http.Client{Transport: transport, Timeout: time.Minute},
		Token: func(context.Context) (string, error) { return e.token, nil },
	}}}}
	forward := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Path = strings.TrimPrefix(r.In.URL.Path, "/placement")
		r.Out.URL.RawPath = strings.TrimPrefix(r.In.URL.RawPath, "/placement")
		r.SetURL(target)
		r.Out.Header.Set("X-Auth-Token", e.token)
	}, ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, "the external Placement does not answer: "+err.Error(), http.StatusBadGateway)
	}}
	x.proxy = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token := r.Header.Get("X-Auth-Token"); token != "" {
			if !c.identity.IsValid(token) {
				http.Error(w, "Authentication required", http.StatusUnauthorized)
				return
			}
		} else if strings.Trim(r.URL.Path, "/") != "placement" { // the version document needs no token
			http.Error(w, "Authentication required", http.StatusUnauthorized)
			return
		}
		forward.ServeHTTP(w, r)
	})
	return x, nil
}

// servePlacement is the service at /placement.
func (c *Cloud) servePlacement(w http.ResponseWriter, r *http.Request) {
	if c.external != nil {
		c.external.proxy.ServeHTTP(w, r)
		return
	}
	c.Placement.ServeHTTP(w, r)
}

// placementState reads the allocations of Placement, and its providers on demand. From an
// external Placement it reads only the trees of the hosts, and only the names and parents of
// providers.
func (c *Cloud) placementState() (providers func() []placementsim.ResourceProvider, allocations []placementsim.Allocation, err error) {
	if c.external == nil {
		return sync.OnceValue(c.Placement.ResourceProviders), c.Placement.Allocations(), nil
	}
	list, allocations, err := c.externalState()
	return func() []placementsim.ResourceProvider { return list }, allocations, err
}

func (c *Cloud) externalState() (providers []placementsim.ResourceProvider, allocations []placementsim.Allocation, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, m := range c.machines {
		trees, err := c.external.trees(ctx, m)
		if err != nil {
			return providers, allocations, err
		}
		for _, p := range slices.Concat(trees...) {
			providers = append(providers, placementsim.ResourceProvider{UUID: p.UUID, Name: p.Name, Parent: p.Parent})
			used, err := c.external.api.Allocations(ctx, p.UUID)
			if err != nil {
				return providers, allocations, fmt.Errorf("simcloud: external placement: %w", err)
			}
			allocations = append(allocations, used...)
		}
	}
	slices.SortStableFunc(allocations, func(a, b placementsim.Allocation) int { return strings.Compare(a.Consumer, b.Consumer) })
	return providers, allocations, nil
}

// externalTrees is [placementsim.Server.Trees] for the trees of all hosts. A tree that cannot be
// read is omitted; the check for leaks reports the reason.
func (c *Cloud) externalTrees(q statuspage.Query) (trees [][]placementsim.UsedProvider, matching int) {
	providers, allocations, _ := c.externalState()
	var roots []string
	members := make(map[string][]placementsim.UsedProvider) // by root
	root := make(map[string]string)
	at := make(map[string]map[string]int) // what is used, by provider
	for _, p := range providers {
		root[p.UUID] = cmp.Or(root[p.Parent], p.UUID)
		if p.Parent == "" {
			roots = append(roots, p.UUID)
		}
		at[p.UUID] = make(map[string]int)
		members[root[p.UUID]] = append(members[root[p.UUID]], placementsim.UsedProvider{ResourceProvider: p, Used: at[p.UUID]})
	}
	for _, a := range allocations {
		if used := at[a.Provider]; used != nil {
			used[a.Class] += a.Used
		}
	}
	for _, id := range roots {
		named := func(p placementsim.UsedProvider) bool {
			return strings.Contains(p.Name, q.Text) || strings.Contains(p.UUID, q.Text)
		}
		if !slices.ContainsFunc(members[id], named) {
			continue
		}
		if matching++; matching > q.Skip && len(trees) < q.Limit {
			trees = append(trees, members[id])
		}
	}
	return trees, matching
}

// trees returns the trees of a host, each with parents before children: the tree that the cloud
// has made, and the tree of the host's name if nova-compute makes the hosts, or has recreated a
// deleted one.
func (x *external) trees(ctx context.Context, m *machine) (trees [][]client.Provider, err error) {
	roots, err := x.roots(ctx, m)
	for i, root := range roots {
		if err != nil {
			break
		}
		if root == "" || slices.Contains(roots[:i], root) {
			continue
		}
		var tree []client.Provider
		if tree, err = x.api.Tree(ctx, root); len(tree) > 0 {
			trees = append(trees, tree)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("simcloud: external placement: %w", err)
	}
	return trees, nil
}

// roots are the uuids that the root of a host may have, "" for one that is not there. Some may be the same.
func (x *external) roots(ctx context.Context, m *machine) ([]string, error) {
	named, err := x.api.Named(ctx, m.host.Name)
	if err != nil || m.host.Fallback == "" {
		return []string{m.provider, named}, err
	}
	fallback, err := x.api.Named(ctx, m.host.Fallback)
	return []string{m.provider, named, fallback}, err
}

// remove deletes what was created for the hosts, children first: their trees, or below the root that is
// Nova's the providers of Cyborg, whose uuids follow from their names.
func (x *external) remove(machines []*machine) error {
	if x == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for _, m := range machines {
		if !m.created && m.host.Root != RootNova {
			continue // the root of that uuid is not the cloud's
		}
		trees, err := x.trees(ctx, m)
		errs = append(errs, err)
		for _, tree := range trees {
			errs = append(errs, x.removeTree(ctx, tree, tree[0].UUID != m.provider))
		}
	}
	return errors.Join(errs...)
}

func (x *external) removeTree(ctx context.Context, tree []client.Provider, ofNova bool) error {
	var errs []error
	for _, p := range slices.Backward(tree) {
		if ofNova && p.UUID != driver.ProviderUUID(p.Name) {
			continue
		}
		if err := x.api.DeleteProvider(ctx, p.UUID); err != nil {
			errs = append(errs, fmt.Errorf("simcloud: external placement: remove provider %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}
