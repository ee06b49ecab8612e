package store

import "iter"

// ComputeShare is what Cyborg has on the provider of a host, in the flat layout.
func (t Tx) ComputeShare(provider string) ComputeShare {
	c, _ := t.s.computeShares.Get(t.tx, provider)
	c.Provider = provider
	return c
}

// PutComputeShare stores what Cyborg has on the provider of a host.
func (t Tx) PutComputeShare(c ComputeShare) { t.s.computeShares.Put(t.tx, c) }

// DeleteComputeShare forgets what Cyborg has on the provider of a host.
func (t Tx) DeleteComputeShare(provider string) { t.s.computeShares.Delete(t.tx, provider) }

// DeviceProvider is what was written to the provider of a device, in the nested layout.
func (t Tx) DeviceProvider(name string) DeviceProvider {
	p, _ := t.s.deviceProviders.Get(t.tx, name)
	p.Name = name
	return p
}

// PutDeviceProvider stores what was written to the provider of a device.
func (t Tx) PutDeviceProvider(p DeviceProvider) { t.s.deviceProviders.Put(t.tx, p) }

// DeleteDeviceProvider forgets the provider of a device.
func (t Tx) DeleteDeviceProvider(name string) { t.s.deviceProviders.Delete(t.tx, name) }

// Regions iterates over the regions below the provider of a device.
func (t Tx) Regions(device string) iter.Seq[Region] { return t.s.regionByProvider.All(t.tx, device) }

// PutRegion stores a region.
func (t Tx) PutRegion(r Region) { t.s.regions.Put(t.tx, r) }

// DeleteRegion forgets a region.
func (t Tx) DeleteRegion(name string) { t.s.regions.Delete(t.tx, name) }
