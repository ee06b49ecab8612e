package spawn

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/internal/session"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// The keys of a group that name what is loaded into a region, which are also properties of a bitstream's image in Glance,
// except the first (cyborg/objects/extarq/fpga_ext_arq.py).
const (
	propertyBitstreamID  = "accel:bitstream_id"
	propertyFunctionID   = "accel:function_id"
	propertyFunctionName = "accel:function_name"
)

// bitstream is an image of Glance for a region. Function is the id of its function, empty if the image does not name it.
type bitstream struct{ ID, Function string }

// bitstreams returns the bitstreams with the value of a property, without the image of the instance; of several, two or more.
func (f *Flow) bitstreams(ctx context.Context, property, value, guestImage string) (found []bitstream, err error) {
	client, err := session.Locate(f.cyborg.Provider(), "image", f.endpoint)
	if err == nil {
		client.ResourceBase = strings.TrimSuffix(client.Endpoint, "v2/") + "v2/"
		client, err = session.Service(client)
	}
	if err != nil {
		return nil, fmt.Errorf("image service: %w", err)
	}
	values := []string{value}
	if property == propertyFunctionID {
		values = requestspec.FunctionSpellings(value)
	}
	for _, value := range values {
		if found, err = bitstreamsWith(ctx, client, property, value, guestImage); err != nil {
			return nil, fmt.Errorf("images: %w", err)
		}
		if len(found) > 0 {
			break
		}
	}
	return found, nil
}

// bitstreamsWith is bitstreams for one spelling of a value. Images of guests may have the property, too: the image of this
// instance, and images in another format than raw, which bitstreams usually have.
func bitstreamsWith(ctx context.Context, client *gophercloud.ServiceClient, property, value, guestImage string) (found []bitstream, err error) {
	ctx, tokens := session.Watch(ctx)
	err = images.List(client, imageQuery{property: {value}}).EachPage(ctx, func(_ context.Context, page pagination.Page) (more bool, err error) {
		all, err := images.ExtractImages(page)
		for _, image := range all {
			if image.Properties[property] != value {
				continue
			}
			more = true // a page without one is no answer to the query
			if image.ID != guestImage && (image.DiskFormat == "" || image.DiskFormat == "raw") {
				function, _ := image.Properties[propertyFunctionID].(string)
				found = append(found, bitstream{image.ID, function})
			}
		}
		return more && len(found) < 2, err
	})
	return found, tokens.Redacted(err)
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

// loaded returns the argument of [matching.FunctionLoaded] for what the traits of a region do not say by themselves: which
// function has a name, and which bitstream a region has. It asks Glance and Cyborg when it is needed first, with the flow's own
// token. A service that fails, or does not answer within stateTimeout, is the error of unread, and regions are ranked without it.
func (a *Attempt) loaded(ctx context.Context, providers map[string]matching.Provider) (loaded func(provider, key, value string) bool, unread func() error) {
	flow, failed := a.flow.asOwn(), error(nil)
	wanted := map[string][]bitstream{} // by key and value
	var regions map[string][]string
	read := func(from func(context.Context) error) {
		ctx, cancel := context.WithTimeout(ctx, stateTimeout)
		defer cancel()
		if err := from(ctx); failed == nil {
			failed = err
		}
	}
	find := func(key, value string) (list []bitstream) {
		list, known := wanted[key+"="+value]
		switch {
		case known:
			return list
		case key == propertyBitstreamID:
			list = []bitstream{{ID: value}}
		default:
			read(func(ctx context.Context) (err error) {
				list, err = flow.bitstreams(ctx, key, value, a.Request.Image)
				return err
			})
		}
		wanted[key+"="+value] = list
		return list
	}
	has := func(provider string, image bitstream) bool {
		if regions == nil {
			read(func(ctx context.Context) (err error) {
				regions, err = flow.programmed(ctx)
				return err
			})
		}
		return slices.Contains(regions[provider], image.ID)
	}
	return func(provider, key, value string) bool {
		if key == propertyFunctionID {
			return false // the trait says it
		}
		return slices.ContainsFunc(find(key, value), func(image bitstream) bool {
			if key == propertyFunctionName && image.Function != "" {
				return slices.ContainsFunc(providers[provider].Traits, func(trait string) bool { return requestspec.NamesFunction(trait, image.Function) })
			}
			return has(provider, image)
		})
	}, func() error { return failed }
}
