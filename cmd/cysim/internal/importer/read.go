package importer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/session"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

const (
	parallelReads = 8
	readAttempts  = 4 // of one request, and of one provider that changes during the import
	retryPause    = 2 * time.Second
	answerTimeout = time.Minute // of one request
	answerLimit   = 64 << 20    // of one answer, unpacked, in bytes
)

// readOnly is a transport that changes nothing.
type readOnly struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t readOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	login := r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/auth/tokens")
	if r.Method != http.MethodGet && !login {
		return nil, fmt.Errorf("import sends only GET, and POST to Keystone for a token: %s %s", r.Method, r.URL.Path)
	}
	return t.next.RoundTrip(r)
}

// object is a JSON object of an answer, as it came.
type object map[string]json.RawMessage

// reader reads a real cloud.
type reader struct {
	log               *slog.Logger
	region            string
	placement, cyborg *gophercloud.ServiceClient // cyborg is nil for a cloud without
	pause             time.Duration              // between two attempts of a request
}

// openCloud logs in and finds the services.
func openCloud(ctx context.Context, name string, log *slog.Logger) (*reader, error) {
	cloud, err := session.ReadCloud(name)
	if err != nil {
		return nil, command.BadInput(fmt.Errorf("log in: %w", err))
	}
	endpoint := cloud.Endpoint
	provider, err := cloud.LogIn(ctx, func(c *http.Client) {
		c.Transport, c.Timeout = httpbounds.Transport(readOnly{c.Transport}, answerLimit), answerTimeout
	})
	if err != nil {
		return nil, err
	}
	r := &reader{log: log, region: endpoint.Region, pause: retryPause}
	if r.placement, err = session.Locate(provider, "placement", endpoint); err == nil {
		r.placement, err = session.Service(r.placement)
	}
	if err != nil {
		return nil, fmt.Errorf("placement: find its endpoint: %w", err)
	}
	r.placement.Type = "placement"
	cyborg, err := cyborgclient.New(provider, cyborgclient.WithEndpointOpts(endpoint))
	switch {
	case errors.As(err, new(*gophercloud.ErrEndpointNotFound)), errors.As(err, new(gophercloud.ErrEndpointNotFound)):
		log.Info("the catalog has no accelerator; only Placement is read")
	case err != nil:
		return nil, fmt.Errorf("accelerator: %w", err)
	default:
		r.cyborg = cyborg.Service()
	}
	return r, nil
}

// read lists everything in the form of [transfer.ParseListing].
func (r *reader) read(ctx context.Context) (data []byte, err error) {
	listing := map[string]any{"schema_version": 2, "read_at": time.Now().UTC().Truncate(time.Second), "region": r.region}
	if r.cyborg != nil {
		if listing["accelerator"], err = r.readLists(ctx, r.cyborg, "devices", "deployables", "attributes", "device_profiles", "accelerator_requests"); err != nil {
			return nil, fmt.Errorf("accelerator: %w", err)
		}
	}
	if listing["placement"], err = r.readPlacement(ctx); err != nil {
		return nil, fmt.Errorf("placement: %w", err)
	}
	return json.Marshal(listing)
}

// readLists reads lists that have no pages.
func (r *reader) readLists(ctx context.Context, service *gophercloud.ServiceClient, paths ...string) (object, error) {
	all := make(object)
	for _, path := range paths {
		answer, err := r.get(ctx, service, path)
		switch {
		case path == "attributes" && gophercloud.ResponseCodeIs(err, http.StatusNotFound):
			r.log.Info("no attributes are listed; the attributes_list of the deployables is used") // Zed
			continue
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		maps.Copy(all, answer)
		r.log.Info("read", service.Type, path)
	}
	return all, nil
}

// readPlacement lists all that Placement holds.
func (r *reader) readPlacement(ctx context.Context) (map[string]any, error) {
	all, err := r.readLists(ctx, r.placement, "resource_classes", "traits", "resource_providers")
	if err != nil {
		return nil, err
	}
	providers, err := providersOf(all["resource_providers"])
	if err != nil {
		return nil, fmt.Errorf("read resource_providers: %w", err)
	}
	found := make([][]string, len(providers)) // consumers, by provider
	err = r.forEach(ctx, "resource_providers", len(providers), func(ctx context.Context, i int) (err error) {
		found[i], err = r.readProvider(ctx, providers[i])
		switch name := providers[i]["name"]; {
		case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
			r.log.Warn("a resource provider was deleted during the import", "name", name)
			providers[i], err = nil, nil
		case err != nil:
			err = fmt.Errorf("resource provider %s (%s): %w", providers[i]["uuid"], name, err)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	ids := slices.Compact(slices.Sorted(slices.Values(slices.Concat(found...))))
	consumers := make([]object, len(ids))
	err = r.forEach(ctx, "consumers", len(ids), func(ctx context.Context, i int) (err error) {
		if consumers[i], err = r.get(ctx, r.placement, "allocations/"+url.PathEscape(ids[i])); err != nil {
			return fmt.Errorf("read allocations of consumer %s: %w", ids[i], err)
		}
		consumers[i]["uuid"], err = json.Marshal(ids[i])
		return err
	})
	return map[string]any{
		"resource_classes": all["resource_classes"], "traits": all["traits"], "consumers": consumers,
		"resource_providers": slices.DeleteFunc(providers, func(p object) bool { return p == nil }),
	}, err
}

// providersOf reads a list of resource providers up to the first invalid item: decoded into
// objects, an arbitrary list takes many times its length.
func providersOf(list json.RawMessage) (providers []object, err error) {
	decoder := json.NewDecoder(bytes.NewReader(list))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('[') {
		return nil, errors.New("it is not a list")
	}
	for decoder.More() {
		var p object
		if err := decoder.Decode(&p); err != nil {
			return nil, err
		}
		if _, err := idOf(p); err != nil {
			return nil, fmt.Errorf("resource provider %d: %w", len(providers), err)
		}
		providers = append(providers, p)
	}
	return providers, nil
}

// idOf is the UUID of a resource provider.
func idOf(p object) (id string, err error) {
	if json.Unmarshal(p["uuid"], &id) != nil || id == "" || p["parent_provider_uuid"] == nil {
		return "", errors.New("it has no uuid or no parent_provider_uuid; Placement must have microversion 1.14")
	}
	return id, nil
}

// readProvider adds what a provider has, read until all is of one generation, and returns its
// consumers.
func (r *reader) readProvider(ctx context.Context, p object) ([]string, error) {
	id, err := idOf(p)
	if err != nil {
		return nil, err
	}
	for range readAttempts {
		generations := make(map[string]bool)
		var consumers map[string]json.RawMessage
		for _, part := range []string{"aggregates", "inventories", "traits", "allocations"} {
			answer, err := r.get(ctx, r.placement, "resource_providers/"+url.PathEscape(id)+"/"+part)
			if err != nil {
				return nil, fmt.Errorf("read its %s: %w", part, err)
			}
			if generation := answer["resource_provider_generation"]; generation != nil { // of aggregates from 1.19
				generations[string(generation)] = true
			}
			if part != "allocations" {
				maps.Copy(p, answer)
			} else if err := json.Unmarshal(answer[part], &consumers); err != nil {
				return nil, fmt.Errorf("read its %s: %w", part, err)
			}
		}
		if len(generations) == 1 {
			return slices.Collect(maps.Keys(consumers)), nil
		}
	}
	return nil, errors.New("it changes all the time")
}

// isTransient reports whether a service cannot answer now. A 404 of Cyborg or Placement is a JSON object and is an answer; an
// ingress without a backend answers with a text or a page.
func isTransient(refused gophercloud.ErrUnexpectedResponseCode) bool {
	switch refused.Actual {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusNotFound:
		return json.Unmarshal(refused.Body, new(object)) != nil
	}
	return false
}

// get is one GET, tried again while the service cannot answer.
func (r *reader) get(ctx context.Context, service *gophercloud.ServiceClient, path string) (answer object, err error) {
	opts := &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}, MoreHeaders: map[string]string{"OpenStack-API-Version": service.Type + " latest"}}
	watched, tokens := session.Watch(ctx)
	for attempt := 1; ; attempt++ {
		_, err = service.Get(watched, strings.TrimSuffix(service.Endpoint, "/")+"/"+path, &answer, opts)
		if err == nil && answer == nil {
			err = errors.New("the answer is null")
		}
		var refused gophercloud.ErrUnexpectedResponseCode
		if !errors.As(err, &refused) || !isTransient(refused) || attempt == readAttempts {
			return answer, tokens.Redacted(err)
		}
		if err := (simhttp.Wall{}).Wait(ctx, r.pause); err != nil {
			return nil, err
		}
	}
}

// forEach calls fetch for 0 to n-1, several at a time, and logs each tenth. The first error
// ends the others.
func (r *reader) forEach(ctx context.Context, what string, n int, fetch func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	turns := make(chan struct{}, parallelReads)
	var workers sync.WaitGroup
	for i := 0; i < n && ctx.Err() == nil; i++ {
		turns <- struct{}{}
		workers.Go(func() {
			if err := fetch(ctx, i); err != nil {
				cancel(err) // only the first counts
			}
			<-turns
		})
		if (i+1)*10/n != i*10/n {
			r.log.Info("read", what, fmt.Sprint(i+1, " of ", n))
		}
	}
	workers.Wait()
	return context.Cause(ctx)
}
