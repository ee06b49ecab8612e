package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/ledger"
	"github.com/gocyborg/gocyborg/requestspec"
)

// ProgramRequest is a function to load into the region of an accelerator.
type ProgramRequest struct {
	// Instance and ARQ are the UUIDs of the instance and its ARQ.
	Instance, ARQ string
	// Image is the UUID of the instance's own image, or empty. It may have the property by which the bitstream is
	// searched, but is not a bitstream.
	Image string
	// Set exactly one: the UUID of the bitstream's image, or the function by which to find the image in the image
	// service. If several images match, images in the format of a virtual disk, such as qcow2, are ignored.
	Bitstream, FunctionID, FunctionName string
}

// Programmed is the result of [Flow.Program].
type Programmed struct {
	// Image is the UUID of the bitstream's image.
	Image string
	// Before and After are the region before and after the call, with its bitstream and the traits of its function.
	// After is zero if the region could not be read.
	Before, After cyborgclient.Deployable
}

// Program loads another function into the accelerator of a running instance. It finds the region of the ARQ and calls
// Cyborg's program API, which is synchronous. The ARQ stays Bound. Cyborg's default policy requires an
// administrator's token. If Cyborg lets the owner of the ARQ program it, the owner's token is sufficient; in
// particular it needs no access to Placement.
//
// The error matches ErrRequest for an invalid request, an ARQ of another instance, or a function without exactly one
// image, and ErrNotBound for an ARQ that is not Bound; nothing was written then. Otherwise it matches ErrProgram and
// its cause, and names the old and the present function, which are returned, too. If the response was lost, Program
// succeeds when Cyborg's record of the region now names the image and did not before. A released Cyborg writes this
// record only during a bind.
func (f *Flow) Program(ctx context.Context, request ProgramRequest) (Programmed, error) {
	if err := request.check(); err != nil {
		return Programmed{}, err
	}
	var done Programmed
	err := f.operate(ctx, Instance{UUID: request.Instance}, func(ctx context.Context, r *remover) (err error) {
		done, err = f.program(ctx, r.journal, request)
		return err
	})
	return done, err
}

func (f *Flow) program(ctx context.Context, journal *ledger.Journal, request ProgramRequest) (Programmed, error) {
	image, err := f.imageOf(ctx, request)
	if err != nil {
		return Programmed{}, err
	}
	region, err := f.regionOf(ctx, request) // after the search for the image, during which the ARQ may lose its region
	if err != nil {
		return Programmed{}, err
	}
	done := Programmed{Image: image, Before: *region}
	content := &ledger.Effect{Kind: ledger.Program, ID: region.UUID}
	err = journal.Do(ctx, content, func(ctx context.Context) error {
		_, err := f.cyborg.ProgramDeployable(ctx, region.UUID, image)
		return err
	})
	if content.Pending() { // the caller gets the response, or the state read below
		journal.Settle(content, ledger.Undone, nil)
	}
	present := "could not be read"
	after, readErr := f.readRegion(ctx, region.UUID)
	if readErr == nil {
		done.After, present = *after, functionText(*after)
	}
	if err == nil || replyLost(err) && deref(region.BitstreamID) != image && deref(done.After.BitstreamID) == image {
		return done, nil
	}
	return done, fmt.Errorf("spawn: instance %s: ARQ %s: %w: region %s, image %s: function before: %s; present: %s: %w",
		request.Instance, request.ARQ, ErrProgram, region.UUID, image, functionText(*region), present, withWhoPrograms(err))
}

// withWhoPrograms adds to a 403 who may program a region.
func withWhoPrograms(err error) error {
	if !errors.Is(err, cyborgclient.ErrForbidden) {
		return err
	}
	return fmt.Errorf("%w; its owner may program it only where Cyborg allows run-time programming", err)
}

// replyLost reports whether the outcome of a program request is unknown. It is known if Cyborg itself, and not a
// proxy, answered with a fault.
func replyLost(err error) bool {
	var answer *cyborgclient.APIError
	return errors.Is(err, cyborgclient.ErrReplyLost) && (!errors.As(err, &answer) || answer.Code == "")
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
	if r.Image != "" {
		if err := checkUUID("image", r.Image); err != nil {
			return err
		}
	}
	if given != 1 {
		return fmt.Errorf("%w: program ARQ %s: set exactly one of bitstream, function id and function name, not %d", ErrRequest, r.ARQ, given)
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
		return nil, fmt.Errorf("%w: ARQ %s does not belong to instance %s", ErrRequest, r.ARQ, r.Instance)
	case arq.State != cyborgclient.StateBound:
		return nil, fmt.Errorf("%w: instance %s: ARQ %s is %s", ErrNotBound, r.Instance, r.ARQ, arq.State)
	}
	deployables, err := f.deployables().of(ctx, arq.DeviceRPUUID)
	if errors.Is(err, cyborgclient.ErrForbidden) && f.cyborg != f.own {
		deployables, err = f.asOwn().deployables().of(ctx, arq.DeviceRPUUID)
	}
	if err != nil {
		return nil, fmt.Errorf("spawn: program: instance %s: ARQ %s: find the region of provider %s: %w", r.Instance, r.ARQ, arq.DeviceRPUUID, err)
	}
	if len(deployables) != 1 {
		return nil, fmt.Errorf("%w: ARQ %s: its provider %s has %d deployables, want 1",
			ErrRequest, r.ARQ, arq.DeviceRPUUID, len(deployables))
	}
	return &deployables[0], nil
}

// imageOf returns the given bitstream, or the only one with the function.
func (f *Flow) imageOf(ctx context.Context, r ProgramRequest) (string, error) {
	property, value := propertyFunctionID, r.FunctionID
	switch {
	case r.Bitstream != "":
		return r.Bitstream, nil
	case r.FunctionName != "":
		property, value = propertyFunctionName, r.FunctionName
	}
	found, err := f.bitstreams(ctx, property, value, r.Image)
	switch {
	case err != nil:
		return "", fmt.Errorf("spawn: program: %w", err)
	case len(found) != 1:
		return "", fmt.Errorf("%w: %d images have %s=%q, want 1", ErrRequest, len(found), property, value)
	}
	return found[0].ID, nil
}

// readRegion reads a region, also when the caller's context has ended, and with the flow's own token if the user's is
// refused.
func (f *Flow) readRegion(ctx context.Context, region string) (*cyborgclient.Deployable, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stateTimeout)
	defer cancel()
	found, err := f.cyborg.GetDeployable(ctx, region)
	if errors.Is(err, cyborgclient.ErrForbidden) && f.cyborg != f.own {
		return f.own.GetDeployable(ctx, region)
	}
	return found, err
}

// functionText names the bitstream and the function's traits, or "nothing known".
func functionText(region cyborgclient.Deployable) string {
	var traits []string
	attributes, _ := region.Attributes() // without malformed ones
	for _, a := range attributes {
		if strings.HasPrefix(a.Key, "trait") && requestspec.IsFunctionTrait(a.Value) {
			traits = append(traits, a.Value)
		}
	}
	slices.Sort(traits)
	if bitstream := deref(region.BitstreamID); bitstream != "" {
		traits = slices.Insert(traits, 0, "bitstream "+bitstream)
	}
	return cmp.Or(strings.Join(traits, ", "), "nothing known")
}
