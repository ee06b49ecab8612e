package store

import "iter"

// Provider finds a resource provider that Cyborg writes.
func (t Tx) Provider(uuid string) (Provider, bool) { return t.s.providers.Get(t.tx, uuid) }

// HostProviders iterates over the resource providers that Cyborg writes for a host.
func (t Tx) HostProviders(host string) iter.Seq[Provider] { return t.s.providerByHost.All(t.tx, host) }

// HasChildren reports whether Cyborg writes a resource provider below another one.
func (t Tx) HasChildren(parent string) bool {
	_, found := t.s.providerByParent.First(t.tx, parent)
	return found
}

// PutProvider stores a resource provider.
func (t Tx) PutProvider(p Provider) { t.s.providers.Put(t.tx, p) }

// DeleteProvider forgets a resource provider.
func (t Tx) DeleteProvider(uuid string) { t.s.providers.Delete(t.tx, uuid) }
