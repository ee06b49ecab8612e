package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/simcloud/transfer"
)

// accelerator lists everything that Cyborg shows. None of its lists has pages.
func (s *source) accelerator(ctx context.Context) (*transfer.AcceleratorListing, error) {
	l := &transfer.AcceleratorListing{
		Devices: []transfer.ListedDevice{}, Deployables: []transfer.ListedDeployable{}, Attributes: []transfer.ListedAttribute{},
		DeviceProfiles: []transfer.ListedProfile{}, ARQs: []transfer.ListedARQ{},
	}
	version, err := s.cyborg.GetVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the version document: %w", err)
	}
	l.MaxVersion = version.MaxVersion
	s.note("accelerator: highest microversion %s", l.MaxVersion)
	for _, step := range []struct {
		name string
		read func(context.Context, *transfer.AcceleratorListing) (int, error)
	}{
		{"devices", s.devices}, {"deployables", s.deployables}, {"attributes", s.attributes},
		{"device_profiles", s.profiles}, {"accelerator_requests", s.arqs},
	} {
		n, err := step.read(ctx, l)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", step.name, err)
		}
		s.note("accelerator: %d %s", n, step.name)
	}
	return l, nil
}

func timesOf(created, updated cyborgclient.Time) transfer.ListedTimes {
	return transfer.ListedTimes{CreatedAt: created.Time, UpdatedAt: updated.Time}
}

func (s *source) devices(ctx context.Context, l *transfer.AcceleratorListing) (int, error) {
	devices, err := s.cyborg.ListDevices(ctx, cyborgclient.ListDevicesOpts{})
	for _, d := range devices {
		l.Devices = append(l.Devices, transfer.ListedDevice{
			UUID: d.UUID, Hostname: d.Hostname, Type: d.Type, Vendor: d.Vendor, Model: d.Model, StdBoardInfo: d.StdBoardInfo,
			VendorBoardInfo: d.VendorBoardInfo, Status: string(d.Status), ListedTimes: timesOf(d.CreatedAt, d.UpdatedAt),
		})
	}
	return len(devices), err
}

func (s *source) deployables(ctx context.Context, l *transfer.AcceleratorListing) (int, error) {
	deployables, err := s.cyborg.ListDeployables(ctx, cyborgclient.ListDeployablesOpts{})
	for _, d := range deployables {
		pairs, err := d.Pairs()
		if err != nil {
			return 0, err
		}
		one := transfer.ListedDeployable{
			UUID: d.UUID, Name: d.Name, NumAccelerators: d.NumAccelerators, DeviceID: d.DeviceID, ProviderUUID: d.RPUUID,
			DriverName: d.DriverName, Attributes: []transfer.ListedPair{}, ListedTimes: timesOf(d.CreatedAt, d.UpdatedAt),
		}
		if d.BitstreamID != nil {
			one.BitstreamID = *d.BitstreamID
		}
		for _, pair := range pairs {
			one.Attributes = append(one.Attributes, transfer.ListedPair(pair))
		}
		l.Deployables = append(l.Deployables, one)
	}
	return len(deployables), err
}

// attributes are no resources of their own in the Zed release.
func (s *source) attributes(ctx context.Context, l *transfer.AcceleratorListing) (int, error) {
	attributes, err := s.cyborg.ListAttributes(ctx, cyborgclient.ListAttributesOpts{})
	if errors.Is(err, cyborgclient.ErrNotFound) {
		s.note("accelerator: it has no attributes of their own; those of the deployables count")
		return 0, nil
	}
	for _, a := range attributes {
		l.Attributes = append(l.Attributes, transfer.ListedAttribute{
			UUID: a.UUID, DeployableID: a.DeployableID, Key: a.Key, Value: a.Value, ListedTimes: timesOf(a.CreatedAt, a.UpdatedAt),
		})
	}
	return len(attributes), err
}

func (s *source) profiles(ctx context.Context, l *transfer.AcceleratorListing) (int, error) {
	profiles, err := s.cyborg.ListDeviceProfiles(ctx, cyborgclient.ListDeviceProfilesOpts{})
	for _, p := range profiles {
		one := transfer.ListedProfile{UUID: p.UUID, Name: p.Name, Groups: p.Groups, ListedTimes: timesOf(p.CreatedAt, p.UpdatedAt)}
		if p.Description != nil {
			one.Description = *p.Description
		}
		l.DeviceProfiles = append(l.DeviceProfiles, one)
	}
	return len(profiles), err
}

func (s *source) arqs(ctx context.Context, l *transfer.AcceleratorListing) (int, error) {
	arqs, err := s.cyborg.ListARQs(ctx, cyborgclient.ListARQsOpts{})
	for _, a := range arqs {
		one := transfer.ListedARQ{
			UUID: a.UUID, State: string(a.State), ProfileName: a.DeviceProfileName, Group: a.DeviceProfileGroupID,
			Hostname: a.Hostname, ProviderUUID: a.DeviceRPUUID, InstanceUUID: a.InstanceUUID, ProjectID: a.ProjectID,
			AttachHandleType: string(a.AttachHandleType), AttachHandleUUID: a.AttachHandleUUID, ListedTimes: timesOf(a.CreatedAt, a.UpdatedAt),
		}
		for key, value := range a.AttachHandleInfo {
			if one.AttachHandleInfo == nil {
				one.AttachHandleInfo = make(map[string]string, len(a.AttachHandleInfo))
			}
			text, ok := value.(string)
			if !ok {
				text = fmt.Sprint(value)
			}
			one.AttachHandleInfo[key] = text
		}
		l.ARQs = append(l.ARQs, one)
	}
	return len(arqs), err
}
