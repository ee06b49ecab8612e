package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// The properties of a bitstream's image in Glance, as Cyborg reads them
// (cyborg/objects/extarq/fpga_ext_arq.py).
const (
	propertyFunctionID   = "accel:function_id"
	propertyFunctionName = "accel:function_name"
)

// ErrProgram is matched by every [*ProgramError].
var ErrProgram = errors.New("region not programmed")

// ProgramRequest says what is to be written to the region of an accelerator.
type ProgramRequest struct {
	// Instance is the UUID of the instance that has the accelerator, ARQ that of
	// its request.
	Instance, ARQ string
	// Exactly one of these is given: the UUID of the bitstream's image, or the
	// function, by which the image is looked for in the image service.
	Bitstream, FunctionID, FunctionName string
	// Images is the image service; nil takes the one of the catalog that the
	// Placement client came from. It is not asked about a Bitstream.
	Images *gophercloud.ServiceClient
}

// RegionFunction is what a region has loaded, as far as Cyborg knows.
type RegionFunction struct {
	// Bitstream is the UUID of the image; empty when Cyborg wrote none.
	Bitstream string
	// Traits are the function's traits (CUSTOM_FPGA_FUNCTION_...), sorted.
	Traits []string
}

// String names bitstream and traits, or "nothing known".
func (f RegionFunction) String() string {
	var parts []string
	if f.Bitstream != "" {
		parts = append(parts, "bitstream "+f.Bitstream)
	}
	if parts = append(parts, f.Traits...); len(parts) == 0 {
		return "nothing known"
	}
	return strings.Join(parts, ", ")
}

// Programmed is what a programming has changed.
type Programmed struct {
	// Region is the UUID of the deployable, Image that of the image.
	Region, Image string
	// Before and After are what the region had loaded.
	Before, After RegionFunction
}

// ProgramError is a programming that failed. It matches ErrProgram and its cause.
// The ARQ stays Bound.
type ProgramError struct {
	Instance, ARQ string
	// Region is the UUID of the deployable, Image that of the image.
	Region, Image string
	// Before is what the region had, Present what it has now; Unknown tells that
	// Present could not be read.
	Before, Present RegionFunction
	Unknown         bool
	Err             error
}

// Error names instance, ARQ, region, image, and the old and present function.
func (e *ProgramError) Error() string {
	present := e.Present.String()
	if e.Unknown {
		present = "not to be learned"
	}
	return fmt.Sprintf("spawn: instance %s: ARQ %s: %v: region %s, image %s: function before: %s; present: %s: %v",
		e.Instance, e.ARQ, ErrProgram, e.Region, e.Image, e.Before, present, e.Err)
}

// Unwrap gives ErrProgram and the cause.
func (e *ProgramError) Unwrap() []error { return []error{ErrProgram, e.Err} }

// Program loads another function into the accelerator of a running instance: it
// finds the region of the ARQ and has Cyborg program it, which waits until that
// is done. The ARQ stays Bound, before and after. By default only an admin may;
// Cyborg may let the owner of the ARQ.
//
// A wrong request, an ARQ that is not the instance's, or no one image of the
// function match ErrRequest, an ARQ that is not Bound ErrNotBound; nothing was
// written then. Otherwise the error is a [*ProgramError], which names the old
// and the present function. A reply that was lost is settled by asking what the
// region has.
func (f *Flow) Program(ctx context.Context, request ProgramRequest) (Programmed, error) {
	if err := request.check(); err != nil {
		return Programmed{}, err
	}
	region, err := f.regionOf(ctx, request)
	if err != nil {
		return Programmed{}, err
	}
	image, err := f.imageOf(ctx, request)
	if err != nil {
		return Programmed{}, err
	}
	done := Programmed{Region: region.UUID, Image: image, Before: functionOf(*region)}
	_, err = f.cyborg.ProgramDeployable(ctx, region.UUID, image)
	present, presentErr := f.present(ctx, region.UUID)
	if err == nil || settledProgram(err, present, presentErr, image) {
		done.After = present
		return done, nil
	}
	return Programmed{}, &ProgramError{
		Instance: request.Instance, ARQ: request.ARQ, Region: region.UUID, Image: image,
		Before: done.Before, Present: present, Unknown: presentErr != nil, Err: err,
	}
}

// settledProgram reports that an unknown outcome turned out well.
func settledProgram(err error, present RegionFunction, presentErr error, image string) bool {
	return errors.Is(err, cyborgclient.ErrReplyLost) && presentErr == nil && present.Bitstream == image
}

func (r ProgramRequest) check() error {
	if err := checkUUID("instance", r.Instance); err != nil {
		return err
	}
	if err := checkUUID("ARQ", r.ARQ); err != nil {
		return err
	}
	given := 0
	for _, text := range []string{r.Bitstream, r.FunctionID, r.FunctionName} {
		if text != "" {
			given++
		}
	}
	if given != 1 {
		return fmt.Errorf("%w: program ARQ %s: exactly one of bitstream, function id and function name is to be given, not %d", ErrRequest, r.ARQ, given)
	}
	if r.Bitstream != "" {
		return checkUUID("bitstream", r.Bitstream)
	}
	return nil
}

// regionOf finds the deployable of a Bound ARQ by its resource provider.
func (f *Flow) regionOf(ctx context.Context, r ProgramRequest) (*cyborgclient.Deployable, error) {
	arq, err := f.cyborg.GetARQ(ctx, r.ARQ)
	switch {
	case err != nil:
		return nil, fmt.Errorf("spawn: program: instance %s: %w", r.Instance, err)
	case arq.InstanceUUID != r.Instance:
		return nil, fmt.Errorf("%w: ARQ %s is not of instance %s", ErrRequest, r.ARQ, r.Instance)
	case arq.State != cyborgclient.StateBound:
		return nil, fmt.Errorf("%w: instance %s: ARQ %s is %s", ErrNotBound, r.Instance, r.ARQ, arq.State)
	}
	parts, err := f.cyborg.ListDeployables(ctx, cyborgclient.ListDeployablesOpts{})
	if err != nil {
		return nil, fmt.Errorf("spawn: program: instance %s: %w", r.Instance, err)
	}
	parts = slices.DeleteFunc(parts, func(part cyborgclient.Deployable) bool { return part.RPUUID != arq.DeviceRPUUID })
	if len(parts) != 1 {
		return nil, fmt.Errorf("%w: ARQ %s: %d deployables are on its provider %s, so its region cannot be told",
			ErrRequest, r.ARQ, len(parts), arq.DeviceRPUUID)
	}
	return &parts[0], nil
}

// imageOf is the bitstream, or the one image of the function.
func (f *Flow) imageOf(ctx context.Context, r ProgramRequest) (string, error) {
	property, value := propertyFunctionID, r.FunctionID
	switch {
	case r.Bitstream != "":
		return r.Bitstream, nil
	case r.FunctionName != "":
		property, value = propertyFunctionName, r.FunctionName
	}
	client := r.Images
	if client == nil {
		var err error
		if client, err = openstack.NewImageV2(f.placement.client.ProviderClient, gophercloud.EndpointOpts{}); err != nil {
			return "", fmt.Errorf("spawn: program: image service: %w", err)
		}
	}
	pages, err := images.List(client, images.ListOpts{}).AllPages(ctx)
	if err != nil {
		return "", fmt.Errorf("spawn: program: images: %w", err)
	}
	all, err := images.ExtractImages(pages)
	if err != nil {
		return "", fmt.Errorf("spawn: program: images: %w", err)
	}
	var found []string
	for _, image := range all {
		if image.Properties[property] == value {
			found = append(found, image.ID)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%w: %d images have %s=%q, one is needed", ErrRequest, len(found), property, value)
	}
	return found[0], nil
}

// present asks what a region has, on a context that the caller's cannot end.
func (f *Flow) present(ctx context.Context, region string) (RegionFunction, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stateTimeout)
	defer cancel()
	part, err := f.cyborg.GetDeployable(ctx, region)
	if err != nil {
		return RegionFunction{}, err
	}
	return functionOf(*part), nil
}

// functionOf reads a deployable; attributes that cannot be read tell nothing.
func functionOf(part cyborgclient.Deployable) RegionFunction {
	var f RegionFunction
	if part.BitstreamID != nil {
		f.Bitstream = *part.BitstreamID
	}
	pairs, _ := part.Pairs()
	for _, pair := range pairs {
		if strings.HasPrefix(pair.Key, "trait") && strings.HasPrefix(pair.Value, "CUSTOM_FPGA_FUNCTION_") {
			f.Traits = append(f.Traits, pair.Value)
		}
	}
	slices.Sort(f.Traits)
	return f
}
