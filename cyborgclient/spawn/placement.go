package spawn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocationcandidates"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/allocations"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"github.com/gocyborg/gocyborg/requestspec"
)

// placementMicroversion is what Nova sends from Zed to 2026.1: string
// suffixes, mappings, root_required and same_subtree.
const placementMicroversion = "1.36"

// oldMicroversion is for a Placement before 1.34. It suffices for everything but
// candidates, whose query has its own: consumer generations came with 1.28, nested
// providers with 1.29.
const oldMicroversion = "1.29"

// PlacementError is an error answer of Placement.
type PlacementError struct {
	Op        string // "GET allocation_candidates"
	Subject   string // the consumer or provider concerned
	Status    int
	Code      string // such as "placement.concurrent_update"
	Detail    string
	RequestID string

	cause error
}

// Error names the operation, the subject and the server's message.
func (e *PlacementError) Error() string {
	text := fmt.Sprintf("placement: %s", e.Op)
	if e.Subject != "" {
		text += " " + e.Subject
	}
	text += fmt.Sprintf(": %d %s", e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		text += ": " + strings.Join(strings.Fields(e.Detail), " ")
	}
	if e.RequestID != "" {
		text += " (" + e.RequestID + ")"
	}
	return text
}

// Unwrap returns gophercloud's ErrUnexpectedResponseCode.
func (e *PlacementError) Unwrap() error { return e.cause }

// statusOf is the status of an error answer of Placement; 0 without an answer.
func statusOf(err error) int {
	var answer *PlacementError
	if errors.As(err, &answer) {
		return answer.Status
	}
	return 0
}

// refused reports that Placement certainly did not apply a change: it answered
// with a 4xx. Anything else leaves the outcome open.
func refused(err error) bool { return statusOf(err)/100 == 4 }

// placement is the client of Placement. Calls are recorded in the trace of their
// context.
type placement struct {
	client *gophercloud.ServiceClient
	// legacy is set once Placement has refused the microversion of Nova's query.
	legacy *atomic.Bool
}

func newPlacement(client *gophercloud.ServiceClient, old bool) placement {
	p := placement{client: client, legacy: new(atomic.Bool)}
	p.legacy.Store(old)
	return p
}

func (p placement) old() bool { return p.legacy.Load() }

// service returns a copy of the caller's client with a microversion that Placement
// supports.
func (p placement) service() *gophercloud.ServiceClient {
	client := *p.client
	client.Type, client.Microversion = "placement", placementMicroversion
	if p.old() {
		client.Microversion = oldMicroversion
	}
	return &client
}

// call runs one call, records it and decodes its error.
func (p placement) call(ctx context.Context, op, subject string, success int, send func() error) error {
	started := time.Now()
	err := send()
	status := success
	if err != nil {
		err = placementError(op, subject, err)
		status = statusOf(err)
	}
	traceRequest(ctx, RequestTrace{Service: "placement", Name: op, Status: status, Duration: time.Since(started)})
	return err
}

func placementError(op, subject string, err error) error {
	var unexpected gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &unexpected) {
		return fmt.Errorf("placement: %s %s: %w", op, subject, err)
	}
	e := &PlacementError{Op: op, Subject: subject, Status: unexpected.Actual, cause: err}
	var body struct {
		Errors []struct{ Detail, Code, RequestID string } `json:"errors"`
	}
	if json.Unmarshal(unexpected.Body, &body) == nil && len(body.Errors) > 0 {
		e.Detail, e.Code = body.Errors[0].Detail, body.Errors[0].Code
	}
	e.RequestID = unexpected.ResponseHeader.Get("X-Openstack-Request-Id")
	return e
}

// candidates requests allocation candidates. It decodes the answer itself:
// gophercloud's pager decodes it three times, which took two thirds of a spawn, and
// AllPages drops the provider summaries.
func (p placement) candidates(ctx context.Context, spec requestspec.RequestSpec) (*allocationcandidates.AllocationCandidates, error) {
	client := p.service()
	client.Microversion = spec.Microversion()
	var answer allocationcandidates.AllocationCandidates
	err := p.call(ctx, "GET allocation_candidates", "", http.StatusOK, func() error {
		_, err := client.Get(ctx, client.ServiceURL("allocation_candidates")+"?"+spec.Query(), &answer,
			&gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}})
		return err
	})
	return &answer, err
}

// providerName returns the name of a provider. That of a compute root is the node
// name, which Cyborg's bind takes as hostname.
func (p placement) providerName(ctx context.Context, uuid string) (string, error) {
	var name string
	err := p.call(ctx, "GET resource_providers", uuid, http.StatusOK, func() error {
		provider, err := resourceproviders.Get(ctx, p.service(), uuid).Extract()
		if err != nil {
			return err
		}
		name = provider.Name
		return nil
	})
	return name, err
}

// allocation is what a consumer holds.
type allocation struct {
	Resources map[string]map[string]int // provider -> class -> amount
	Mappings  map[string][]string       // only for writes
	Project   string
	User      string
	// Generation is nil for a consumer that holds nothing.
	Generation *int
}

// ToAllocationUpdateMap implements allocations.UpdateOptsBuilder; gophercloud's
// own options have no mappings.
func (a allocation) ToAllocationUpdateMap() (map[string]any, error) {
	providers := make(map[string]any, len(a.Resources))
	for provider, resources := range a.Resources {
		providers[provider] = map[string]any{"resources": resources}
	}
	body := map[string]any{
		"allocations": providers, "project_id": a.Project, "user_id": a.User, "consumer_generation": a.Generation,
	}
	if len(a.Mappings) > 0 {
		body["mappings"] = a.Mappings
	}
	return body, nil
}

func (p placement) getAllocation(ctx context.Context, consumer string) (allocation, error) {
	held := allocation{Resources: map[string]map[string]int{}}
	err := p.call(ctx, "GET allocations", consumer, http.StatusOK, func() error {
		answer, err := allocations.Get(ctx, p.service(), consumer).Extract()
		if err != nil {
			return err
		}
		for provider, entry := range answer.Allocations {
			held.Resources[provider] = entry.Resources
		}
		held.Generation = answer.ConsumerGeneration
		held.Project, held.User = deref(answer.ProjectID), deref(answer.UserID)
		return nil
	})
	return held, err
}

func (p placement) putAllocation(ctx context.Context, consumer string, want allocation) error {
	return p.call(ctx, "PUT allocations", consumer, http.StatusNoContent, func() error {
		return allocations.Update(ctx, p.service(), consumer, want).ExtractErr()
	})
}

// deleteAllocation succeeds for an unknown consumer.
func (p placement) deleteAllocation(ctx context.Context, consumer string) error {
	err := p.call(ctx, "DELETE allocations", consumer, http.StatusNoContent, func() error {
		return allocations.Delete(ctx, p.service(), consumer).ExtractErr()
	})
	if statusOf(err) == http.StatusNotFound {
		return nil
	}
	return err
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (p placement) traits(ctx context.Context, provider string) ([]string, error) {
	var names []string
	err := p.call(ctx, "GET resource_providers traits", provider, http.StatusOK, func() error {
		answer, err := resourceproviders.GetTraits(ctx, p.service(), provider).Extract()
		if err == nil {
			names = answer.Traits
		}
		return err
	})
	return names, err
}

// consumersOf returns none for an unknown provider: Cyborg may just have removed it.
func (p placement) consumersOf(ctx context.Context, provider string) ([]string, error) {
	var consumers []string
	err := p.call(ctx, "GET resource_providers allocations", provider, http.StatusOK, func() error {
		answer, err := resourceproviders.GetAllocations(ctx, p.service(), provider).Extract()
		if err != nil {
			return err
		}
		consumers = slices.Collect(maps.Keys(answer.Allocations))
		return nil
	})
	if statusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	return consumers, err
}
