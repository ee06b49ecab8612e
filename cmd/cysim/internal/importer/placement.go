package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/simcloud/transfer"
)

const (
	// Minor versions of Placement: the highest that is known here, the first that shows
	// parents, and those from which more is shown.
	placementHighest       = 39
	placementParents       = 14
	placementGenerations   = 28
	placementConsumerTypes = 38

	parallelReads = 8
	readAttempts  = 4 // of one request, and of one provider that changes meanwhile
	retryPause    = 2 * time.Second
)

// placementReader reads a Placement.
type placementReader struct {
	service  *gophercloud.ServiceClient
	minor    int
	progress func(format string, args ...any)
	pause    time.Duration // between two attempts of a request
}

// read lists everything that the service holds.
func (r *placementReader) read(ctx context.Context) (l transfer.PlacementListing, err error) {
	if r.minor, err = r.negotiate(ctx); err != nil {
		return l, fmt.Errorf("read the version document: %w", err)
	}
	l.Version = fmt.Sprint("1.", r.minor)
	r.progress("placement: microversion %s", l.Version)
	if r.minor < placementGenerations {
		r.progress("placement: generations of consumers are shown from 1.%d; they will count as 1", placementGenerations)
	}
	if r.minor < placementConsumerTypes {
		r.progress("placement: types of consumers are shown from 1.%d; there will be none", placementConsumerTypes)
	}
	var classes struct {
		Classes []struct {
			Name string `json:"name"`
		} `json:"resource_classes"`
	}
	if err := r.get(ctx, "/resource_classes", &classes); err != nil {
		return l, fmt.Errorf("read resource_classes: %w", err)
	}
	for _, c := range classes.Classes {
		l.ResourceClasses = append(l.ResourceClasses, c.Name)
	}
	if err := r.get(ctx, "/traits", &struct {
		Traits *[]string `json:"traits"`
	}{&l.Traits}); err != nil {
		return l, fmt.Errorf("read traits: %w", err)
	}
	if err := r.get(ctx, "/resource_providers", &struct { // all in one answer
		Providers *[]transfer.ListedProvider `json:"resource_providers"`
	}{&l.ResourceProviders}); err != nil {
		return l, fmt.Errorf("read resource_providers: %w", err)
	}
	consumers, err := r.fetchProviders(ctx, &l)
	if err != nil {
		return l, err
	}
	return l, r.fetchConsumers(ctx, &l, consumers)
}

// negotiate picks the highest microversion that both sides know.
func (r *placementReader) negotiate(ctx context.Context) (int, error) {
	var doc struct {
		Versions []struct {
			Max string `json:"max_version"`
			Min string `json:"min_version"`
		} `json:"versions"`
	}
	if err := r.get(ctx, "", &doc); err != nil {
		return 0, err
	}
	for _, v := range doc.Versions {
		var lowest, highest int
		_, _ = fmt.Sscanf(v.Min, "1.%d", &lowest)
		_, err := fmt.Sscanf(v.Max, "1.%d", &highest)
		switch {
		case err != nil:
			continue
		case highest < placementParents:
			return 0, fmt.Errorf("its highest microversion is %s; parents of resource providers are shown from 1.%d", v.Max, placementParents)
		case lowest > placementHighest:
			return 0, fmt.Errorf("its lowest microversion is %s; 1.%d is the highest that is known here", v.Min, placementHighest)
		}
		return min(highest, placementHighest), nil
	}
	return 0, errors.New("it names no version 1 with a max_version; is that a Placement?")
}

// get is one GET, tried again while the service cannot answer.
func (r *placementReader) get(ctx context.Context, path string, into any) error {
	opts := &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}}
	if r.minor > 0 {
		opts.MoreHeaders = map[string]string{"OpenStack-API-Version": fmt.Sprintf("placement 1.%d", r.minor)}
	}
	target := strings.TrimSuffix(r.service.Endpoint, "/") + cmp.Or(path, "/")
	for attempt := 1; ; attempt++ {
		_, err := r.service.Get(ctx, target, into, opts)
		if !isTransient(err) || attempt == readAttempts {
			return err
		}
		select {
		case <-time.After(r.pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isTransient reports whether an answer says that the service cannot answer now.
func isTransient(err error) bool {
	return slices.ContainsFunc([]int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout},
		func(status int) bool { return gophercloud.ResponseCodeIs(err, status) })
}

// forEach calls fetch for 0 to n-1, several at a time, and reports each tenth. The first
// error ends the others.
func (r *placementReader) forEach(ctx context.Context, what string, n int, fetch func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	var mu sync.Mutex
	next, done := 0, 0
	for range parallelReads {
		workers.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < n && ctx.Err() == nil {
				i := next
				next++
				mu.Unlock()
				err := fetch(ctx, i)
				mu.Lock()
				if err != nil {
					cancel(err) // only the first counts
				} else if done++; done*10/n != (done-1)*10/n {
					r.progress("placement: %d of %d %s", done, n, what)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// fetchProviders reads what the providers of a listing have, and returns the consumers
// found. A provider that is deleted meanwhile is left out.
func (r *placementReader) fetchProviders(ctx context.Context, l *transfer.PlacementListing) ([]string, error) {
	var mu sync.Mutex
	deleted, consumers := make(map[string]bool), make(map[string]bool)
	err := r.forEach(ctx, "resource providers", len(l.ResourceProviders), func(ctx context.Context, i int) error {
		p := &l.ResourceProviders[i]
		found, err := r.provider(ctx, p)
		mu.Lock()
		defer mu.Unlock()
		for _, c := range found {
			consumers[c] = true
		}
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			deleted[p.UUID] = true
			r.progress("placement: resource provider %s (%s) was deleted meanwhile", p.UUID, p.Name)
		} else if err != nil {
			return fmt.Errorf("resource provider %s (%s): %w", p.UUID, p.Name, err)
		}
		return nil
	})
	l.ResourceProviders = slices.DeleteFunc(l.ResourceProviders, func(p transfer.ListedProvider) bool { return deleted[p.UUID] })
	return slices.Sorted(maps.Keys(consumers)), err
}

// provider reads one provider until all that it has is of one generation, and returns its
// consumers.
func (r *placementReader) provider(ctx context.Context, p *transfer.ListedProvider) (consumers []string, err error) {
	path := "/resource_providers/" + url.PathEscape(p.UUID)
	for range readAttempts {
		var body struct {
			Generation  int                                 `json:"resource_provider_generation"`
			Inventories map[string]transfer.ListedInventory `json:"inventories"`
			Traits      []string                            `json:"traits"`
			Aggregates  []string                            `json:"aggregates"`
			Allocations map[string]struct{}                 `json:"allocations"`
		}
		var generations []int
		for _, part := range []string{"aggregates", "inventories", "traits", "allocations"} {
			if err := r.get(ctx, path+"/"+part, &body); err != nil {
				return nil, fmt.Errorf("read its %s: %w", part, err)
			}
			if part != "aggregates" { // which show a generation from 1.19 only
				generations = append(generations, body.Generation)
			}
		}
		p.Generation, p.Inventories, p.Traits, p.Aggregates = body.Generation, body.Inventories, body.Traits, body.Aggregates
		if slices.Sort(p.Aggregates); len(slices.Compact(generations)) == 1 {
			return slices.Collect(maps.Keys(body.Allocations)), nil
		}
	}
	return nil, errors.New("it changes all the time")
}

// fetchConsumers reads what each consumer has. One that has nothing any more is left out.
func (r *placementReader) fetchConsumers(ctx context.Context, l *transfer.PlacementListing, uuids []string) error {
	l.Consumers = make([]transfer.ListedConsumer, len(uuids))
	err := r.forEach(ctx, "consumers", len(uuids), func(ctx context.Context, i int) error {
		c := &l.Consumers[i]
		body := struct {
			*transfer.ListedConsumer
			Allocations map[string]struct {
				Resources map[string]int64 `json:"resources"`
			} `json:"allocations"`
		}{ListedConsumer: c}
		if err := r.get(ctx, "/allocations/"+url.PathEscape(uuids[i]), &body); err != nil {
			return fmt.Errorf("read allocations of consumer %s: %w", uuids[i], err)
		}
		c.UUID, c.Allocations = uuids[i], make(map[string]map[string]int64, len(body.Allocations))
		for provider, amounts := range body.Allocations {
			c.Allocations[provider] = amounts.Resources
		}
		return nil
	})
	l.Consumers = slices.DeleteFunc(l.Consumers, func(c transfer.ListedConsumer) bool { return len(c.Allocations) == 0 })
	return err
}
