package spawn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/registeredlimits"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

const secondInstance = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b002"

// limited is a world that enforces quotas, with limits registered for Nova.
type limited struct {
	*world
	identity         *gophercloud.ServiceClient
	service, project string
}

// newLimited registers limits by resource class.
func newLimited(t *testing.T, quota spawn.Quota, registered map[string]int) *limited {
	t.Helper()
	quota.Enforce = true
	w := &limited{world: newWorld(t, worldOpts{config: spawn.Config{Quota: quota}})}
	provider := w.cloud.Provider(t)
	var err error
	if w.identity, err = openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{}); err != nil {
		t.Fatal(err)
	}
	result := provider.GetAuthResult().(tokens.CreateResult)
	catalog, err := result.ExtractServiceCatalog()
	if err != nil {
		t.Fatal(err)
	}
	project, err := result.ExtractProject()
	if err != nil {
		t.Fatal(err)
	}
	w.project = project.ID
	for _, entry := range catalog.Entries {
		if entry.Type == "compute" {
			w.service = entry.ID
		}
	}
	var opts registeredlimits.BatchCreateOpts
	for class, amount := range registered {
		opts = append(opts, registeredlimits.CreateOpts{ServiceID: w.service, RegionID: "RegionOne", ResourceName: "class:" + class, DefaultLimit: amount})
	}
	if len(opts) > 0 {
		if _, err := registeredlimits.BatchCreate(t.Context(), w.identity, opts).Extract(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *limited) own(t *testing.T, class string, amount int) {
	t.Helper()
	_, err := limits.BatchCreate(t.Context(), w.identity, limits.BatchCreateOpts{{
		ServiceID: w.service, RegionID: "RegionOne", ProjectID: w.project, ResourceName: "class:" + class, ResourceLimit: amount,
	}}).Extract()
	if err != nil {
		t.Fatal(err)
	}
}

func requestFor(uuid, profile string) spawn.Request {
	r := request(profile)
	r.Instance = uuid
	return r
}

// Nova's regression test cyborg_resource_limit_enforced.
func TestNovaScenarioCyborgResourceLimitEnforced(t *testing.T) {
	t.Parallel()
	w := newLimited(t, spawn.Quota{}, map[string]int{"FPGA": 1})
	first, err := w.flow.Run(t.Context(), request("fpga"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.flow.Run(t.Context(), requestFor(secondInstance, "fpga"))
	var over *spawn.QuotaError
	if !errors.As(err, &over) || !errors.Is(err, spawn.ErrQuota) || over.StatusCode() != 403 {
		t.Fatalf("got %v, want a quota error", err)
	}
	want := &spawn.QuotaError{Project: w.project, Over: []spawn.OverLimit{{Class: "FPGA", Limit: 1, Used: 1, Asked: 1}}}
	if diff := cmp.Diff(want, over); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if text := "Resource class:FPGA is over limit of 1 due to current usage 1 and delta 1"; !strings.Contains(err.Error(), text) {
		t.Errorf("text %q, want %q in it", err, text)
	}
	var failure *spawn.Error
	if !errors.As(err, &failure) || failure.Step != spawn.StepCandidates || len(failure.Undone) > 0 {
		t.Errorf("got %+v, want it before anything was made", failure)
	}
	w.judge(t, first, nil)
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		quota      spawn.Quota
		registered map[string]int
		own        map[string]int
		want       []spawn.OverLimit
	}{
		{name: "nothing registered"},
		{name: "enough", registered: map[string]int{"FPGA": 1, "VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}},
		{name: "no limit", registered: map[string]int{"FPGA": -1}},
		{name: "none allowed", registered: map[string]int{"FPGA": 0}, want: []spawn.OverLimit{{Class: "FPGA", Limit: 0, Asked: 1}}},
		{name: "flavor and profile together", registered: map[string]int{"FPGA": 0, "VCPU": 1},
			want: []spawn.OverLimit{{Class: "FPGA", Asked: 1}, {Class: "VCPU", Limit: 1, Asked: 2}}},
		{name: "the project has more", registered: map[string]int{"FPGA": 0}, own: map[string]int{"FPGA": 5}},
		{name: "the project has less", registered: map[string]int{"FPGA": 5}, own: map[string]int{"FPGA": 0},
			want: []spawn.OverLimit{{Class: "FPGA", Asked: 1}}},
		{name: "required and not registered", quota: spawn.Quota{Required: []string{"FPGA"}}, want: []spawn.OverLimit{{Class: "FPGA", Asked: 1}}},
		{name: "of another region", quota: spawn.Quota{Region: "elsewhere"}, registered: map[string]int{"FPGA": 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newLimited(t, tt.quota, tt.registered)
			if tt.quota.Region != "" { // a region is read with the service
				w.remake(t, spawn.Quota{Enforce: true, Region: tt.quota.Region, ServiceID: w.service})
			}
			for class, amount := range tt.own {
				w.own(t, class, amount)
			}
			result, err := w.flow.Run(t.Context(), request("fpga"))
			var over *spawn.QuotaError
			if errors.As(err, &over) {
				if diff := cmp.Diff(tt.want, over.Over); diff != "" {
					t.Errorf("over (-want +got):\n%s", diff)
				}
			} else if err != nil || tt.want != nil {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			w.judge(t, result, err)
		})
	}
}

// remake gives the world a flow of another configuration.
func (w *limited) remake(t *testing.T, quota spawn.Quota) {
	t.Helper()
	placement, err := openstack.NewPlacementV1(w.cloud.Provider(t), gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	if w.flow, err = spawn.New(spawn.Config{Quota: quota}, w.cyborg, placement, w.events); err != nil {
		t.Fatal(err)
	}
}

func TestQuotasAreOffByDefault(t *testing.T) {
	t.Parallel()
	w := newLimited(t, spawn.Quota{}, map[string]int{"FPGA": 0})
	w.remake(t, spawn.Quota{})
	result, err := w.flow.Run(t.Context(), request("fpga"))
	w.judge(t, result, err)
	if err != nil {
		t.Error(err)
	}
}

// Nova's test get_deltas_with_cyborg_device_profile: what the profile asks for
// counts for each of the instances.
func TestQuotaCountsInstances(t *testing.T) {
	t.Parallel()
	w := newLimited(t, spawn.Quota{}, map[string]int{"FPGA": 1})
	spec, err := requestspec.New(flavor("fpga"), &requestspec.DeviceProfile{Name: "fpga", Groups: []map[string]string{{"resources:FPGA": "1"}}}, requestspec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.flow.CheckQuota(t.Context(), w.project, spec, 1); err != nil {
		t.Errorf("one instance: %v", err)
	}
	var over *spawn.QuotaError
	if err := w.flow.CheckQuota(t.Context(), w.project, spec, 2); !errors.As(err, &over) || over.Over[0] != (spawn.OverLimit{Class: "FPGA", Limit: 1, Asked: 2}) {
		t.Errorf("two instances: %v", err)
	}
	if err := w.flow.CheckQuota(t.Context(), w.project, spec, 0); !errors.Is(err, spawn.ErrRequest) {
		t.Errorf("no instance: %v", err)
	}
}

func TestOfARunningInstanceOnlyTheDevicesAreNew(t *testing.T) {
	t.Parallel()
	w := newLimited(t, spawn.Quota{}, map[string]int{"VCPU": 2, "FPGA": 1})
	plain := requestFor(instance, "fpga")
	plain.Flavor.ExtraSpecs = nil
	if _, err := w.flow.Run(t.Context(), plain); err != nil { // uses both VCPU
		t.Fatal(err)
	}
	running := request("fpga")
	running.Running = true
	result, err := w.flow.Run(t.Context(), running)
	if err != nil {
		t.Fatal(err)
	}
	w.judge(t, result, err)
}

func TestAQuotaThatCannotBeReadStopsTheSpawn(t *testing.T) {
	t.Parallel()
	for _, operation := range []string{"identity.registered_limit.list", "identity.limit.list", "placement.usages.get"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			w := newLimited(t, spawn.Quota{}, map[string]int{"FPGA": 1})
			if err := w.cloud.Faults().Set(fault.Rule{Operation: operation, Action: fault.Status, Status: 503}); err != nil {
				t.Fatal(err)
			}
			result, err := w.flow.Run(t.Context(), request("fpga"))
			if err == nil || errors.Is(err, spawn.ErrQuota) || !strings.Contains(err.Error(), "503") {
				t.Errorf("got %v, want the answer of the service", err)
			}
			w.cloud.Faults().Clear()
			w.judge(t, result, err)
		})
	}
}

// Keystone shows a project's token its own limits only; the others would pass
// for not limited.
func TestQuotasOfOtherProjectsNeedASystemScopedClient(t *testing.T) {
	t.Parallel()
	w := newLimited(t, spawn.Quota{}, map[string]int{"FPGA": 5})
	admin := w.project
	w.project = w.projectOf(t, "demo")
	w.own(t, "FPGA", 0)
	req := request("fpga")
	req.ProjectID = w.project
	_, err := w.flow.Run(t.Context(), req)
	if !errors.Is(err, spawn.ErrConfig) || !strings.Contains(err.Error(), "system-scoped") || !strings.Contains(err.Error(), admin) {
		t.Errorf("with a project's token: %v", err)
	}
	w.remake(t, spawn.Quota{Enforce: true, Identity: w.system(t)})
	_, err = w.flow.Run(t.Context(), req)
	var over *spawn.QuotaError
	if !errors.As(err, &over) || over.Project != w.project || over.Over[0].Limit != 0 {
		t.Errorf("with the system's: %v", err)
	}
	result, err := w.flow.Run(t.Context(), request("fpga")) // of the admin's own project
	if err != nil {
		t.Error(err)
	}
	w.judge(t, result, err)
}

func (w *limited) projectOf(t *testing.T, user string) string {
	t.Helper()
	provider, err := w.cloud.ProviderClient(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	project, err := provider.GetAuthResult().(tokens.CreateResult).ExtractProject()
	if err != nil {
		t.Fatal(err)
	}
	return project.ID
}

// system is a client of Keystone whose token is for the whole cloud.
func (w *limited) system(t *testing.T) *gophercloud.ServiceClient {
	t.Helper()
	opts := gophercloud.AuthOptions{
		IdentityEndpoint: w.cloud.URL() + "/identity/v3", Username: "admin", Password: simcloud.Password, DomainName: "Default",
		Scope: &gophercloud.AuthScope{System: true},
	}
	provider, err := openstack.NewClient(opts.IdentityEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	provider.HTTPClient.Transport = w.cloud.Transport()
	if err := openstack.Authenticate(t.Context(), provider, opts); err != nil {
		t.Fatal(err)
	}
	client, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
