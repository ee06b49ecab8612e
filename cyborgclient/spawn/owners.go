package spawn

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// addressInName matches the PCI address in the name of a provider: HOST_0000:3b:00.0 from Cyborg and Nova's PCI
// tracking, HOST_pci_0000_3b_00_0 from Nova's vGPUs.
var addressInName = regexp.MustCompile(`([0-9a-f]{4})[:_]([0-9a-f]{2})[:_]([0-9a-f]{2})[._]([0-7])$`)

// providerAddress returns the PCI address in the name of a provider, or the name.
func providerAddress(name string) string {
	if part := addressInName.FindStringSubmatch(strings.ToLower(name)); part != nil {
		return part[1] + ":" + part[2] + ":" + part[3] + "." + part[4]
	}
	return name
}

// hostTree is the known part of the provider tree of a host.
type hostTree struct {
	names map[string]string // of the providers, by UUID; at least Nova's
	nova  map[string]string // names of the providers with OWNER_NOVA below the host, by PCI address
}

func newHostTree(names map[string]string, nova []string) hostTree {
	tree := hostTree{names: names, nova: make(map[string]string, len(nova))}
	for _, provider := range nova {
		tree.nova[providerAddress(names[provider])] = names[provider]
	}
	return tree
}

// readHost reads the name of a candidate's host, and the names of all providers in its tree if Nova has devices
// there.
func (a *Attempt) readHost(ctx context.Context, c Candidate) (host string, err error) {
	a.tree = hostTree{}
	nova := c.summaries.novaBelow(c.Root)
	if len(nova) == 0 {
		return a.flow.placement.ProviderName(ctx, c.Root)
	}
	names, err := a.flow.placement.Tree(ctx, c.Root, "")
	if err == nil && names[c.Root] == "" {
		return a.flow.placement.ProviderName(ctx, c.Root) // the tree is empty: the host was removed
	}
	if err != nil {
		return "", err
	}
	a.tree = newHostTree(names, nova)
	return names[c.Root], nil
}

// ownerConflict returns an [*OwnerConflictError] if Nova also has a provider for the card of one of Cyborg's
// providers, for example after an operator has added the card to Nova's configuration: both would assign it. Its
// cause is the refusal, if there was one.
func (t hostTree) ownerConflict(providers []string, refusal error) error {
	for _, provider := range providers {
		address := providerAddress(t.names[provider])
		if nova, both := t.nova[address]; both {
			return &OwnerConflictError{
				Address: address, provider: provider,
				Err:    refusal,
				Owners: [2]string{"Nova (resource provider " + nova + ")", "Cyborg (resource provider " + provider + ")"},
			}
		}
	}
	return nil
}

// withOwners converts the refusal of devices to an [*OwnerConflictError] if Nova now owns one of them. Providers that
// cannot be read are skipped.
func (a *Attempt) withOwners(ctx context.Context, root string, providers []string, refusal error) error {
	names, err := a.flow.placement.Tree(ctx, root, placement.TraitOwnerNova)
	delete(names, root)
	if err != nil || len(names) == 0 {
		return refusal
	}
	nova := slices.Collect(maps.Keys(names))
	for _, provider := range providers {
		names[provider], _ = a.flow.placement.ProviderName(ctx, provider)
	}
	return cmp.Or(newHostTree(names, nova).ownerConflict(providers, refusal), refusal)
}

// withOwnersOfBind is withOwners for a bind that was refused or has failed.
func (a *Attempt) withOwnersOfBind(ctx context.Context, err error) error {
	if a.Chosen == nil || !bindRefused(err) {
		return err
	}
	return a.withOwners(ctx, a.Chosen.Root, a.boundProviders(), err)
}

func bindRefused(err error) bool { return bindFailed(err) || errors.Is(err, cyborgclient.ErrNotFound) }

// bindFailed reports whether Cyborg shows an ARQ as BindFailed.
func bindFailed(err error) bool {
	var notBound *NotBoundError
	return errors.As(err, &notBound) && slices.ContainsFunc(notBound.ARQs, func(arq cyborgclient.ARQ) bool { return arq.State == cyborgclient.StateBindFailed })
}
