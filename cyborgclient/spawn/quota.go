package spawn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/registeredlimits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/usages"

	"github.com/gocyborg/gocyborg/requestspec"
)

// ErrQuota: the project may not use as much; see [QuotaError].
var ErrQuota = errors.New("quota exceeded")

// Quota has a flow hold the resource classes of a request, those of the device
// profiles included, against Keystone's unified limits, as Nova does with
// [quota]driver = nova.quota.UnifiedLimitsDriver (nova/limit/placement.py). A
// limit of the resource class FPGA is registered as class:FPGA. The zero value
// checks nothing.
//
// What the project uses is what Placement says, so that everything counts that
// claims, whoever made it. Nova's limits that are not of resource classes, such
// as servers, are Nova's to check. Two spawns at the same time may both pass and
// be over the limit together.
type Quota struct {
	// Enforce turns the check on.
	Enforce bool `json:"enforce,omitempty"`
	// ServiceID is the id of the service that the limits are registered for.
	// Empty: that of type compute in the token's catalog, as its limits are Nova's.
	ServiceID string `json:"service_id,omitempty"`
	// Region is the region that the limits are registered for; limits without a
	// region hold for all. Empty: that of the service's endpoint in the catalog.
	Region string `json:"region,omitempty"`
	// Required are resource classes that count as limited to 0 where no limit is
	// registered; other classes without a limit may be used freely. They are
	// Nova's unified_limits_resource_list with the strategy require.
	Required []string `json:"required,omitempty"`
	// Identity is the client of Keystone. Nil: that of the token of the Placement
	// client. Keystone shows a token of one project only that project's limits; to
	// check for others it has to be system-scoped.
	Identity *gophercloud.ServiceClient `json:"-"`
}

// OverLimit is one resource class that a request asks too much of.
type OverLimit struct {
	Class string `json:"class"`
	// Limit is that of the project, or the registered default. Used is what the
	// project uses already, and Asked what is asked for beside it.
	Limit int `json:"limit"`
	Used  int `json:"used"`
	Asked int `json:"asked"`
}

// String is oslo.limit's text.
func (o OverLimit) String() string {
	return fmt.Sprintf("Resource class:%s is over limit of %d due to current usage %d and delta %d", o.Class, o.Limit, o.Used, o.Asked)
}

// QuotaError is the refusal of a request for which the project has no quota. It
// matches ErrQuota. Nothing was claimed.
type QuotaError struct {
	Project string
	// Over are the classes, by name.
	Over []OverLimit
}

// Error is oslo.limit's text for all classes.
func (e *QuotaError) Error() string {
	texts := make([]string, len(e.Over))
	for i, over := range e.Over {
		texts[i] = over.String()
	}
	return fmt.Sprintf("%s: Project %s is over a limit for [%s]", ErrQuota, e.Project, strings.Join(texts, ", "))
}

// Unwrap returns ErrQuota.
func (e *QuotaError) Unwrap() error { return ErrQuota }

// StatusCode is what Nova answers to such a request: 403.
func (e *QuotaError) StatusCode() int { return http.StatusForbidden }

// CheckQuota holds what a number of instances would use against the limits of a
// project: the error is a [*QuotaError] when they would be over. It checks whether
// or not the configuration enforces quotas, so that an API can ask before it
// accepts a request; other errors are those of Keystone and Placement, and
// ErrConfig when the token's catalog has no service that limits could be of, or
// when Keystone would not show the token the limits of that project.
func (f *Flow) CheckQuota(ctx context.Context, project string, spec requestspec.RequestSpec, instances int) error {
	if instances < 1 {
		return fmt.Errorf("%w: %d instances", ErrRequest, instances)
	}
	var trace Trace
	asked := spec.Amounts()
	for class, amount := range asked {
		asked[class] = int(min(int64(amount)*int64(instances), math.MaxInt32)) // no limit is larger
	}
	return f.enforce(ctx, trace.open(StepRequest), project, asked)
}

// checkQuota is CheckQuota for the attempt: of an instance that runs already,
// what it holds is kept, and only the devices are new.
func (a *Attempt) checkQuota(ctx context.Context, step *StepTrace) error {
	if !a.flow.config.Quota.Enforce {
		return nil
	}
	asked := a.Spec
	if a.Request.Running {
		held, err := a.flow.placement.getAllocation(ctx, step, a.Request.Instance)
		if err != nil && !hasStatus(err, http.StatusNotAcceptable) {
			return err
		}
		if len(held.Resources) > 0 {
			asked.Groups = a.deviceGroups()
		}
	}
	return a.flow.enforce(ctx, step, a.Request.ProjectID, asked.Amounts())
}

func (f *Flow) enforce(ctx context.Context, step *StepTrace, project string, asked map[string]int) error {
	if own, _ := f.owner(); f.config.Quota.Identity == nil && own != "" && own != project {
		return fmt.Errorf("%w: quota: the token is of project %s, and Keystone hides the limits of project %s from it; give Quota.Identity a system-scoped client",
			ErrConfig, own, project)
	}
	q, err := f.quotaReader(step)
	if err != nil {
		return err
	}
	limit, err := q.limits(ctx, project)
	if err != nil {
		return err
	}
	used, err := q.used(ctx, project)
	if err != nil {
		return err
	}
	var over []OverLimit
	for _, class := range slices.Sorted(maps.Keys(asked)) {
		most, limited := limit[class]
		if !limited && slices.Contains(f.config.Quota.Required, class) {
			most, limited = 0, true
		}
		if limited && most >= 0 && used[class]+asked[class] > most { // -1 is no limit
			over = append(over, OverLimit{Class: class, Limit: most, Used: used[class], Asked: asked[class]})
		}
	}
	if len(over) > 0 {
		return &QuotaError{Project: project, Over: over}
	}
	return nil
}

// quotaReader asks Keystone and Placement.
type quotaReader struct {
	identity, placement *gophercloud.ServiceClient
	service, region     string
	step                *StepTrace
}

func (f *Flow) quotaReader(step *StepTrace) (*quotaReader, error) {
	config := f.config.Quota
	q := &quotaReader{identity: config.Identity, service: config.ServiceID, region: config.Region, step: step}
	placement := *f.placement.client
	placement.Microversion = "1.9" // usages of a project
	q.placement = &placement
	if q.identity == nil {
		var err error
		if q.identity, err = openstack.NewIdentityV3(placement.ProviderClient, gophercloud.EndpointOpts{}); err != nil {
			return nil, fmt.Errorf("quota: find Keystone: %w", err)
		}
	}
	if q.service == "" {
		service, region := computeService(placement.GetAuthResult())
		if service == "" {
			return nil, fmt.Errorf("%w: quota: the token's catalog has no service of type compute; set service_id", ErrConfig)
		}
		q.service = service
		if q.region == "" {
			q.region = region
		}
	}
	return q, nil
}

// computeService finds Nova in the catalog of a token.
func computeService(result any) (id, region string) {
	r, ok := result.(interface {
		ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
	})
	if !ok {
		return "", ""
	}
	catalog, err := r.ExtractServiceCatalog()
	if err != nil || catalog == nil {
		return "", ""
	}
	for _, entry := range catalog.Entries {
		if entry.Type != "compute" {
			continue
		}
		for _, endpoint := range entry.Endpoints {
			return entry.ID, endpoint.RegionID
		}
		return entry.ID, ""
	}
	return "", ""
}

// limits are those that hold for a project, by resource class: its own where it
// has one, else the registered default.
func (q *quotaReader) limits(ctx context.Context, project string) (map[string]int, error) {
	found := limitSet{region: q.region, amounts: map[string]int{}, rank: map[string]int{}}
	err := q.call("GET registered_limits", func() error {
		pages, err := registeredlimits.List(q.identity, registeredlimits.ListOpts{ServiceID: q.service}).AllPages(ctx)
		if err != nil {
			return err
		}
		list, err := registeredlimits.ExtractRegisteredLimits(pages)
		for _, l := range list {
			found.take(l.ResourceName, l.RegionID, l.DefaultLimit, 0)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	err = q.call("GET limits", func() error {
		pages, err := limits.List(q.identity, limits.ListOpts{ServiceID: q.service, ProjectID: project}).AllPages(ctx)
		if err != nil {
			return err
		}
		list, err := limits.ExtractLimits(pages)
		for _, l := range list {
			if l.ProjectID == project {
				found.take(l.ResourceName, l.RegionID, l.ResourceLimit, 2)
			}
		}
		return err
	})
	return found.amounts, err
}

// limitSet keeps of several limits of a class the one that counts.
type limitSet struct {
	region  string
	amounts map[string]int
	rank    map[string]int
}

// take notes a limit: one of the region counts more than one of none.
func (s *limitSet) take(resource, region string, amount, rank int) {
	class, ok := strings.CutPrefix(resource, "class:")
	if !ok || region != "" && region != s.region {
		return
	}
	if region != "" {
		rank++
	}
	if before, there := s.rank[class]; !there || rank > before {
		s.amounts[class], s.rank[class] = amount, rank
	}
}

// used is what Placement says that a project uses.
func (q *quotaReader) used(ctx context.Context, project string) (map[string]int, error) {
	var used map[string]int
	p := placement{client: q.placement}
	err := p.call(q.step, "GET usages", project, http.StatusOK, func() error {
		answer, err := usages.Get(ctx, q.placement, usages.GetOpts{ProjectID: project}).ExtractPre138()
		if err == nil {
			used = answer.Usages
		}
		return err
	})
	return used, err
}

// call traces a call to Keystone.
func (q *quotaReader) call(name string, send func() error) error {
	started := time.Now()
	err := send()
	status := http.StatusOK
	if err != nil {
		status = 0
		var unexpected gophercloud.ErrUnexpectedResponseCode
		if errors.As(err, &unexpected) {
			status = unexpected.Actual
		}
		err = fmt.Errorf("quota: identity: %s: %w", name, err)
	}
	q.step.Requests = append(q.step.Requests, RequestTrace{Service: "identity", Name: name, Status: status, Duration: time.Since(started)})
	return err
}
