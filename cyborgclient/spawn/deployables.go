package spawn

import (
	"context"
	"crypto/md5"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
	"github.com/gocyborg/gocyborg/requestspec"
)

// deployableList finds the deployables of resource providers. Both have the same name, except on a flat host and
// after an operator has renamed the provider. In these cases all deployables are listed, once, which is a long
// response on a cloud with many hosts.
type deployableList struct {
	flow *Flow
	all  map[string][]cyborgclient.Deployable // by provider; nil: not read
}

func (f *Flow) deployables() *deployableList { return &deployableList{flow: f} }

// of lists the deployables of a provider, or none if Placement does not have the provider. If Placement refuses the
// token, as for the owner of an instance, all deployables that Cyborg shows are searched.
func (l *deployableList) of(ctx context.Context, provider string) ([]cyborgclient.Deployable, error) {
	if l.flow.config.Compat.FlatProviders {
		return l.amongAll(ctx, provider)
	}
	name, err := l.flow.placement.ProviderName(ctx, provider)
	switch {
	case placement.UnknownProvider(err):
		return nil, nil
	case placement.StatusOf(err) == http.StatusForbidden:
		return l.amongAll(ctx, provider)
	case err != nil:
		return nil, err
	}
	return l.named(ctx, provider, name)
}

// named is of for a provider whose name is known.
func (l *deployableList) named(ctx context.Context, provider, name string) ([]cyborgclient.Deployable, error) {
	if l.flow.config.Compat.FlatProviders {
		return l.amongAll(ctx, provider)
	}
	found, err := l.flow.cyborg.ListDeployables(ctx, cyborgclient.ListDeployablesOpts{Name: name})
	found = slices.DeleteFunc(found, func(d cyborgclient.Deployable) bool { return d.RPUUID != provider })
	if err != nil || len(found) > 0 || !isRenamed(provider, name) {
		return found, err
	}
	return l.amongAll(ctx, provider)
}

func (l *deployableList) amongAll(ctx context.Context, provider string) ([]cyborgclient.Deployable, error) {
	if l.all == nil {
		all, err := l.flow.cyborg.ListDeployables(ctx, cyborgclient.ListDeployablesOpts{})
		if err != nil {
			return nil, err
		}
		l.all = map[string][]cyborgclient.Deployable{}
		for _, d := range all {
			l.all[d.RPUUID] = append(l.all[d.RPUUID], d)
		}
	}
	return l.all[provider], nil
}

// isRenamed reports whether a provider may belong to Cyborg and have been renamed: its UUID is derived from another
// name.
func isRenamed(provider, name string) bool {
	return isCyborgs(provider) && provider != providerUUID(name)
}

// isCyborgs reports whether the UUID of a provider is of version 3, as Cyborg generates it. Nova generates version 4,
// Neutron version 5.
func isCyborgs(provider string) bool { return len(provider) == 36 && provider[14] == '3' }

// providerUUID returns the UUID that Cyborg generates for a provider: version 3 of its name in the DNS name space.
func providerUUID(name string) string {
	const dns = "\x6b\xa7\xb8\x10\x9d\xad\x11\xd1\x80\xb4\x00\xc0\x4f\xd4\x30\xc8"
	sum := md5.Sum([]byte(dns + name))
	sum[6], sum[8] = sum[6]&0x0f|0x30, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:])
}

// attributeClass is the key of the deployable's attribute with its resource class.
const attributeClass = "rc"

// devices returns the resource providers of the Cyborg devices that an instance uses or its ARQs name, with their
// classes. The trait OWNER_CYBORG does not identify them, because most drivers do not report it. If Cyborg does not
// list the provider of an ARQ, because the device was removed or was on a flat host, the classes come from the ARQ's
// device profile. If the token may not list deployables, as a member's since 14.1.0, the UUID of the provider
// decides.
func (f *Flow) devices(ctx context.Context, held placement.Resources, arqs []cyborgclient.ARQ) (placement.Devices, error) {
	listed, list := placement.Devices{}, f.deployables()
	for _, provider := range f.mayBeDevices(held, arqs) {
		deployables, err := list.of(ctx, provider)
		switch {
		case err == nil:
			addClasses(listed, deployables)
		case !errors.Is(err, cyborgclient.ErrForbidden):
			return nil, err
		case isCyborgs(provider):
			for class := range held[provider] {
				listed.Add(provider, class)
			}
		}
	}
	devices := maps.Clone(listed)
	for _, arq := range arqs {
		if arq.DeviceRPUUID == "" || listed[arq.DeviceRPUUID] != nil {
			continue
		}
		profile, err := f.readProfile(ctx, arq.DeviceProfileName)
		if err != nil {
			return nil, fmt.Errorf("the devices of ARQ %s: %w", arq.UUID, err)
		}
		groups, err := requestspec.ParseProfile(profile.Name, profile.Groups)
		if err != nil {
			return nil, fmt.Errorf("%w: the devices of ARQ %s: %w", ErrProfile, arq.UUID, err)
		}
		for _, group := range groups {
			for class := range group.Resources {
				devices.Add(arq.DeviceRPUUID, class)
			}
		}
	}
	return devices, nil
}

// addClasses adds the resource classes of deployables to their providers.
func addClasses(devices placement.Devices, deployables []cyborgclient.Deployable) {
	for _, deployable := range deployables {
		attributes, _ := deployable.Attributes() // without malformed ones
		for _, a := range attributes {
			if a.Key == attributeClass {
				devices.Add(deployable.RPUUID, a.Value)
			}
		}
	}
}

// mayBeDevices returns the providers that may have devices. Except on a flat host, the compute node itself has none.
func (f *Flow) mayBeDevices(held placement.Resources, arqs []cyborgclient.ARQ) []string {
	providers := slices.Collect(maps.Keys(held))
	for _, arq := range arqs {
		providers = append(providers, arq.DeviceRPUUID)
	}
	slices.Sort(providers)
	nodes := placement.NodeProviders(held)
	return slices.DeleteFunc(slices.Compact(providers), func(provider string) bool {
		return provider == "" || !f.config.Compat.FlatProviders && slices.Contains(nodes, provider)
	})
}
