package spawn

import (
	"context"
	"crypto/md5"
	"fmt"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// deployableList finds the deployables of resource providers. A provider has their name, but on a flat host, and where an
// operator has renamed it: then all are listed, once, which on a cloud with many hosts is a long answer.
type deployableList struct {
	flow *Flow
	all  map[string][]cyborgclient.Deployable // by provider; nil: not read
}

func (f *Flow) deployables() *deployableList { return &deployableList{flow: f} }

// of lists the deployables of a provider. One that Placement does not have has none. The owner of an instance, whose token
// Placement refuses, finds them among all that Cyborg shows.
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

// isRenamed reports whether a provider may be one of Cyborg's that has another name now: its UUID is that of another name.
func isRenamed(provider, name string) bool {
	return isCyborgs(provider) && provider != providerUUID(name)
}

// isCyborgs reports whether the UUID of a provider is one that Cyborg gives, of version 3. Nova's are of version 4, Neutron's of
// version 5.
func isCyborgs(provider string) bool { return len(provider) == 36 && provider[14] == '3' }

// providerUUID is the UUID that Cyborg gives to a provider: of version 3, of its name in the name space of DNS.
func providerUUID(name string) string {
	const dns = "\x6b\xa7\xb8\x10\x9d\xad\x11\xd1\x80\xb4\x00\xc0\x4f\xd4\x30\xc8"
	sum := md5.Sum([]byte(dns + name))
	sum[6], sum[8] = sum[6]&0x0f|0x30, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:])
}
