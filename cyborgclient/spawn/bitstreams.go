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

// The keys of a group, and the properties of the image of an instance, that name what is loaded into a region. All but the first
// are also properties by which a bitstream is found in Glance (cyborg/objects/extarq/fpga_ext_arq.py).
const (
	propertyBitstreamID   = "accel:bitstream_id"
	propertyBitstreamName = "accel:bitstream_name"
	propertyFunctionID    = "accel:function_id"
	propertyFunctionName  = "accel:function_name"
)

func bitstreamProperties() []string {
	return []string{propertyBitstreamID, propertyBitstreamName, propertyFunctionID, propertyFunctionName}
}

// bitstream is an image of Glance for a region. Function is the id of its function, empty if the image does not name it.
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

// withImage returns a profile in which the groups for FPGAs that name nothing have what the image of the instance names.
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

// bitstreams returns the bitstreams with the value of a property, without the image of the instance; of several, two or more.
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

// bitstreamsWith is bitstreams for one spelling of a value. Images of guests may have the property, too: the image of this
// instance, and next to bitstreams, which are raw, the disks, which have another format.
func bitstreamsWith(ctx context.Context, client *gophercloud.ServiceClient, property, value, guestImage string) (found, disks []bitstream, err error) {
	ctx, tokens := session.Watch(ctx)
	err = images.List(client, imageQuery{property: {value}}).EachPage(ctx, func(_ context.Context, page pagination.Page) (more bool, err error) {
		all, err := images.ExtractImages(page)
		for _, image := range all {
			if image.Properties[property] != value {
				continue
			}
			more = true // a page without one is no answer to the query
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

// programmed returns the bitstreams of the regions that Cyborg has programmed, by provider. Those without one come last in
// Cyborg's order, so that the answer is not as long as the cloud is large.
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

// readRegions reads what the traits of regions do not say by themselves, for the weigher of functions: what the image of the instance
// names, which id a function's name stands for, and which bitstreams regions have. It asks Glance and Cyborg with the flow's own token.
// The profile is the attempt's, with what the image names, and loaded the argument of [matching.FunctionLoaded]. With an error, as of
// a service that does not answer within stateTimeout, they know as much as was read.
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
