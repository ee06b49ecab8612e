package spawn

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/internal/session"
	"github.com/gocyborg/gocyborg/requestspec"
)

// The keys of a group, and the properties of the instance's image, that name what to load into a region. Bitstreams
// are searched in Glance by all but the first (cyborg/objects/extarq/fpga_ext_arq.py).
const (
	propertyBitstreamID   = "accel:bitstream_id"
	propertyBitstreamName = "accel:bitstream_name"
	propertyFunctionID    = "accel:function_id"
	propertyFunctionName  = "accel:function_name"
)

func bitstreamProperties() []string {
	return []string{propertyBitstreamID, propertyBitstreamName, propertyFunctionID, propertyFunctionName}
}

// bitstream is a Glance image for a region. Function is the ID of its function, or empty if the image does not name
// it.
type bitstream struct{ ID, Function string }

// glance returns a client of the image service.
func (f *Flow) glance() (*gophercloud.ServiceClient, error) {
	client, err := session.Locate(f.cyborg.Provider(), "image", f.endpoint)
	if err == nil {
		client.ResourceBase = strings.TrimSuffix(client.Endpoint, "v2/") + "v2/"
		client, err = session.Service(client)
	}
	if err != nil {
		return nil, fmt.Errorf("image service: %w", err)
	}
	return client, nil
}

// withImage returns the profile with the properties of the instance's image added to each FPGA group that names no
// bitstream or function.
func (f *Flow) withImage(ctx context.Context, profile requestspec.Profile, guestImage string) (requestspec.Profile, error) {
	leaves := func(group map[string]string) bool {
		return isRegion(group) && !slices.ContainsFunc(bitstreamProperties(), func(key string) bool { return group[key] != "" })
	}
	if guestImage == "" || !slices.ContainsFunc(profile.Groups, leaves) {
		return profile, nil
	}
	client, err := f.glance()
	if err != nil {
		return profile, err
	}
	ctx, tokens := session.Watch(ctx)
	image, err := images.Get(ctx, client, guestImage).Extract()
	if err != nil {
		return profile, tokens.Redacted(fmt.Errorf("image %s of the instance: %w", guestImage, err))
	}
	profile.Groups = slices.Clone(profile.Groups)
	for i, group := range profile.Groups {
		if !leaves(group) {
			continue
		}
		profile.Groups[i] = maps.Clone(group)
		for _, key := range bitstreamProperties() {
			if value, ok := image.Properties[key].(string); ok && value != "" {
				profile.Groups[i][key] = value
			}
		}
	}
	return profile, nil
}

// bitstreams returns the bitstreams whose property has the value, except the image of the instance. If there are more
// than two, some may be missing.
func (f *Flow) bitstreams(ctx context.Context, property, value, guestImage string) ([]bitstream, error) {
	client, err := f.glance()
	if err != nil {
		return nil, err
	}
	values := []string{value}
	if property == propertyFunctionID {
		values = requestspec.FunctionSpellings(value)
	}
	var disks []bitstream
	for _, value := range values {
		ofValue, others, err := bitstreamsWith(ctx, client, property, value, guestImage)
		if err != nil || len(ofValue) > 0 {
			return ofValue, err
		}
		disks = append(disks, others...)
	}
	return disks, nil
}

// bitstreamsWith is bitstreams for one spelling of a value. Images of guests may have the property, too. The
// instance's own image is skipped. Bitstreams are raw; images in another format are returned as disks.
func bitstreamsWith(ctx context.Context, client *gophercloud.ServiceClient, property, value, guestImage string) (found, disks []bitstream, err error) {
	ctx, tokens := session.Watch(ctx)
	err = images.List(client, imageQuery{property: {value}}).EachPage(ctx, func(_ context.Context, page pagination.Page) (more bool, err error) {
		all, err := images.ExtractImages(page)
		for _, image := range all {
			if image.Properties[property] != value {
				continue
			}
			more = true // a page without a match ends the search
			function, _ := image.Properties[propertyFunctionID].(string)
			switch b := (bitstream{image.ID, function}); {
			case image.ID == guestImage:
			case image.DiskFormat == "", image.DiskFormat == "raw":
				found = append(found, b)
			default:
				disks = append(disks, b)
			}
		}
		return more && len(found) < 2, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("images: %w", tokens.Redacted(err))
	}
	return found, disks, nil
}

// imageQuery selects images by a property, which gophercloud's own options cannot.
type imageQuery url.Values

// ToImageListQuery implements images.ListOptsBuilder.
func (q imageQuery) ToImageListQuery() (string, error) { return "?" + url.Values(q).Encode(), nil }

// maxProgrammed is how many regions with a bitstream are read, about as many as there are candidates.
const maxProgrammed = requestspec.DefaultLimit

// programmed returns the bitstreams of the regions that Cyborg has programmed, by provider. The list is sorted so
// that regions with a bitstream come first, and is limited, so its length does not grow with the cloud.
func (f *Flow) programmed(ctx context.Context) (map[string][]string, error) {
	list, err := f.cyborg.ListDeployables(ctx, cyborgclient.ListDeployablesOpts{SortKey: "bitstream_id", SortDir: "desc", Limit: maxProgrammed})
	regions := map[string][]string{}
	for _, d := range list {
		if image := deref(d.BitstreamID); image != "" {
			regions[d.RPUUID] = append(regions[d.RPUUID], image)
		}
	}
	return regions, err
}

// readRegions reads what the function weigher cannot see from traits: what the instance's image names, the ID of a
// named function, and the bitstreams of regions. It asks Glance and Cyborg with the flow's own token. The returned
// profile is the profile of the attempt with the properties of the image added; loaded is the argument of
// [matching.FunctionLoaded]. After an error, such as a service that does not respond within stateTimeout, both
// reflect what was read until then.
func (a *Attempt) readRegions(ctx context.Context) (profile requestspec.Profile, loaded func(provider, key, value string) bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	flow := a.flow.asOwn()
	if a.Profile != nil {
		profile, err = flow.withImage(ctx, *a.Profile, a.Request.Image)
	}
	wanted := map[string][]bitstream{} // by key and value
	nameless := false
	for _, group := range profile.Groups {
		for key, value := range group {
			switch {
			case err != nil || !isRegion(group):
			case key == propertyBitstreamID:
				wanted[key+value] = []bitstream{{ID: value}}
				nameless = true
			case key == propertyBitstreamName, key == propertyFunctionName:
				wanted[key+value], err = flow.bitstreams(ctx, key, value, a.Request.Image)
				nameless = nameless || slices.ContainsFunc(wanted[key+value], func(b bitstream) bool { return key == propertyBitstreamName || b.Function == "" })
			}
		}
	}
	var regions map[string][]string
	if err == nil && nameless {
		regions, err = flow.programmed(ctx)
	}
	providers := a.Candidates[0].summaries.providers()
	return profile, func(provider, key, value string) bool {
		return slices.ContainsFunc(wanted[key+value], func(b bitstream) bool {
			if key != propertyFunctionName || b.Function == "" {
				return slices.Contains(regions[provider], b.ID)
			}
			return slices.ContainsFunc(providers[provider].Traits, func(trait string) bool { return requestspec.NamesFunction(trait, b.Function) })
		})
	}, err
}

// hasRegions reports whether a profile requests FPGAs.
func hasRegions(profile requestspec.Profile) bool {
	return slices.ContainsFunc(profile.Groups, isRegion)
}

// isRegion reports whether a group requests FPGAs.
func isRegion(group map[string]string) bool {
	return group["resources:FPGA"] != "" || group["resources:CUSTOM_ACCELERATOR_FPGA"] != ""
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
