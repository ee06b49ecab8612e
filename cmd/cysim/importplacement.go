package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/simcloud/transfer"
)

// The minor versions of Placement that matter to a reader: the highest that is understood
// here, the first that tells parents, and those from which more is told.
const (
	placementHighest        = 39
	placementParents        = 14
	placementGenerations    = 28
	placementConsumerTypes  = 38
	placementReaders        = 8 // providers read at a time
	placementTries          = 4 // of one request, and of one provider that changes meanwhile
	retryPause              = 2 * time.Second
	placementVersionPattern = "placement 1.%d"
)

// placementReader reads a Placement.
type placementReader struct {
	service *gophercloud.ServiceClient
	minor   int
	note    func(format string, args ...any)
	pause   time.Duration // between two tries of a request
}

// read lists everything that the service holds.
func (r *placementReader) read(ctx context.Context) (l transfer.PlacementListing, err error) {
	if r.minor, err = r.negotiate(ctx); err != nil {
		return l, fmt.Errorf("read the version document: %w", err)
	}
	l.Version = "1." + strconv.Itoa(r.minor)
	r.note("placement: microversion %s", l.Version)
	if r.minor < placementGenerations {
		r.note("placement: generations of consumers are shown from 1.%d; they will count as 1", placementGenerations)
	}
	if r.minor < placementConsumerTypes {
		r.note("placement: types of consumers are shown from 1.%d; there will be none", placementConsumerTypes)
	}
	if l.ResourceClasses, err = r.classes(ctx); err != nil {
		return l, fmt.Errorf("read resource_classes: %w", err)
	}
	if l.Traits, err = r.traits(ctx, "/traits"); err != nil {
		return l, fmt.Errorf("read traits: %w", err)
	}
	names, err := r.providers(ctx)
	if err != nil {
		return l, fmt.Errorf("read resource_providers: %w", err)
	}
	consumers, err := r.fill(ctx, &l, names)
	if err != nil {
		return l, err
	}
	l.Consumers, err = r.consumers(ctx, consumers)
	return l, err
}

// negotiate picks the highest microversion that both sides know.
func (r *placementReader) negotiate(ctx context.Context) (int, error) {
	var doc struct {
		Versions []struct {
			ID  string `json:"id"`
			Max string `json:"max_version"`
			Min string `json:"min_version"`
		} `json:"versions"`
	}
	if err := r.get(ctx, "", &doc); err != nil {
		return 0, err
	}
	for _, v := range doc.Versions {
		highest, ok := minorOf(v.Max)
		if !ok {
			continue
		}
		lowest, _ := minorOf(v.Min)
		switch {
		case highest < placementParents:
			return 0, fmt.Errorf("its highest microversion is %s; parents of resource providers are shown from 1.%d", v.Max, placementParents)
		case lowest > placementHighest:
			return 0, fmt.Errorf("its lowest microversion is %s; 1.%d is the highest that is understood here", v.Min, placementHighest)
		}
		return min(highest, placementHighest), nil
	}
	return 0, errors.New("it names no version 1 with a max_version; is that a Placement?")
}

func minorOf(text string) (int, bool) {
	digits, found := strings.CutPrefix(text, "1.")
	n, err := strconv.Atoi(digits)
	return n, found && err == nil && n >= 0
}

// get is one GET, tried again while the service is not able to answer.
func (r *placementReader) get(ctx context.Context, path string, into any) error {
	opts := &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}}
	if r.minor > 0 {
		opts.MoreHeaders = map[string]string{"OpenStack-API-Version": fmt.Sprintf(placementVersionPattern, r.minor)}
	}
	target := strings.TrimSuffix(r.service.Endpoint, "/") + cmp.Or(path, "/")
	for try := 1; ; try++ {
		_, err := r.service.Get(ctx, target, into, opts)
		if err == nil || try == placementTries || ctx.Err() != nil || !passing(err) {
			return err
		}
		timer := time.NewTimer(r.pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// passing tells trouble that may be over soon.
func passing(err error) bool {
	return slices.ContainsFunc([]int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout},
		func(status int) bool { return gophercloud.ResponseCodeIs(err, status) })
}

func (r *placementReader) classes(ctx context.Context) ([]string, error) {
	var body struct {
		Classes []struct {
			Name string `json:"name"`
		} `json:"resource_classes"`
	}
	err := r.get(ctx, "/resource_classes", &body)
	names := []string{}
	for _, c := range body.Classes {
		names = append(names, c.Name)
	}
	return names, err
}

func (r *placementReader) traits(ctx context.Context, path string) ([]string, error) {
	body := struct {
		Traits []string `json:"traits"`
	}{Traits: []string{}}
	err := r.get(ctx, path, &body)
	return body.Traits, err
}

// providers lists the providers, which Placement does in one answer, without what they
// have.
func (r *placementReader) providers(ctx context.Context) ([]transfer.ListedProvider, error) {
	var body struct {
		Providers []struct {
			UUID   string  `json:"uuid"`
			Name   string  `json:"name"`
			Parent *string `json:"parent_provider_uuid"`
		} `json:"resource_providers"`
	}
	if err := r.get(ctx, "/resource_providers", &body); err != nil {
		return nil, err
	}
	list := make([]transfer.ListedProvider, 0, len(body.Providers))
	for _, p := range body.Providers {
		if p.UUID == "" || p.Name == "" {
			return nil, fmt.Errorf("a provider has no uuid or no name (%q, %q)", p.UUID, p.Name)
		}
		one := transfer.ListedProvider{UUID: p.UUID, Name: p.Name}
		if p.Parent != nil {
			one.Parent = *p.Parent
		}
		list = append(list, one)
	}
	return list, nil
}

// filling is the reading of what providers have.
type filling struct {
	reader    *placementReader
	cancel    context.CancelFunc
	providers []transfer.ListedProvider

	mu        sync.Mutex
	done      int
	gone      map[string]bool // deleted meanwhile
	consumers map[string]bool
	first     error
}

// fill reads what the providers have, several at a time, and returns the consumers found.
// A provider that is deleted meanwhile is left out.
func (r *placementReader) fill(ctx context.Context, l *transfer.PlacementListing, providers []transfer.ListedProvider) ([]string, error) {
	f := &filling{reader: r, providers: providers, gone: make(map[string]bool), consumers: make(map[string]bool)}
	ctx, f.cancel = context.WithCancel(ctx)
	defer f.cancel()
	next := make(chan int)
	var workers sync.WaitGroup
	for range placementReaders {
		workers.Go(func() {
			for i := range next {
				found, err := r.provider(ctx, &providers[i])
				f.note(i, found, err)
			}
		})
	}
	for i := range providers {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	l.ResourceProviders = slices.DeleteFunc(providers, func(p transfer.ListedProvider) bool { return f.gone[p.UUID] })
	return slices.Sorted(maps.Keys(f.consumers)), cmp.Or(f.first, ctx.Err())
}

// note keeps what came of one provider. The first failure ends the others.
func (f *filling) note(i int, consumers []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.providers[i]
	switch {
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		f.gone[p.UUID] = true
		f.reader.note("placement: resource provider %s (%s) was deleted meanwhile", p.UUID, p.Name)
	case err != nil && f.first == nil:
		f.first = fmt.Errorf("resource provider %s (%s): %w", p.UUID, p.Name, err)
		f.cancel()
	}
	for _, c := range consumers {
		f.consumers[c] = true
	}
	if f.done++; f.first == nil && f.done*10/len(f.providers) != (f.done-1)*10/len(f.providers) {
		f.reader.note("placement: %d of %d resource providers", f.done, len(f.providers))
	}
}

// provider reads one provider until all that it has is of one generation, and returns
// who has allocations on it.
func (r *placementReader) provider(ctx context.Context, p *transfer.ListedProvider) (consumers []string, err error) {
	for range placementTries {
		var same bool
		if consumers, same, err = r.providerOnce(ctx, p); err != nil || same {
			return consumers, err
		}
	}
	return nil, errors.New("it changes all the time")
}

func (r *placementReader) providerOnce(ctx context.Context, p *transfer.ListedProvider) (consumers []string, same bool, err error) {
	var inventories struct {
		Generation  int                                 `json:"resource_provider_generation"`
		Inventories map[string]transfer.ListedInventory `json:"inventories"`
	}
	var traits struct {
		Generation int      `json:"resource_provider_generation"`
		Traits     []string `json:"traits"`
	}
	var aggregates struct {
		Aggregates []string `json:"aggregates"`
	}
	var allocations struct {
		Generation  int                 `json:"resource_provider_generation"`
		Allocations map[string]struct{} `json:"allocations"`
	}
	path := "/resource_providers/" + url.PathEscape(p.UUID)
	for _, part := range []struct {
		name string
		into any
	}{{"inventories", &inventories}, {"traits", &traits}, {"aggregates", &aggregates}, {"allocations", &allocations}} {
		if err := r.get(ctx, path+"/"+part.name, part.into); err != nil {
			return nil, false, fmt.Errorf("read its %s: %w", part.name, err)
		}
	}
	p.Generation, p.Inventories, p.Traits, p.Aggregates = allocations.Generation, inventories.Inventories, traits.Traits, aggregates.Aggregates
	slices.Sort(p.Aggregates)
	same = inventories.Generation == p.Generation && traits.Generation == p.Generation
	return slices.Collect(maps.Keys(allocations.Allocations)), same, nil
}

// consumers reads what each consumer has. One that has nothing any more is left out.
func (r *placementReader) consumers(ctx context.Context, uuids []string) ([]transfer.ListedConsumer, error) {
	list := []transfer.ListedConsumer{}
	for i, id := range uuids {
		var body struct {
			Allocations map[string]struct {
				Resources map[string]int64 `json:"resources"`
			} `json:"allocations"`
			Project    string `json:"project_id"`
			User       string `json:"user_id"`
			Generation *int   `json:"consumer_generation"`
			Type       string `json:"consumer_type"`
		}
		if err := r.get(ctx, "/allocations/"+url.PathEscape(id), &body); err != nil {
			return nil, fmt.Errorf("read allocations of consumer %s: %w", id, err)
		}
		if (i+1)*10/len(uuids) != i*10/len(uuids) {
			r.note("placement: %d of %d consumers", i+1, len(uuids))
		}
		if len(body.Allocations) == 0 {
			continue
		}
		c := transfer.ListedConsumer{
			UUID: id, ProjectID: body.Project, UserID: body.User, Generation: body.Generation, ConsumerType: body.Type,
			Allocations: make(map[string]map[string]int64, len(body.Allocations)),
		}
		for provider, amounts := range body.Allocations {
			c.Allocations[provider] = amounts.Resources
		}
		list = append(list, c)
	}
	return list, nil
}
