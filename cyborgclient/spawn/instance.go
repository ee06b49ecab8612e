package spawn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/requestspec"
)

// Instance is an instance after its spawn, as [Operations] need it. An agent
// keeps these facts with the instance; [InstanceOf] has them from the spawn.
type Instance struct {
	UUID string
	// Host is the name of the compute node where it is; empty for one that is
	// shelved and offloaded.
	Host   string
	Flavor requestspec.Flavor
	// Ports are its network ports. The binding profile of an accelerated one
	// names its ARQ (arq_uuid), as Neutron keeps it.
	Ports []Port
	// ARQs are the UUIDs of all its ARQs, those of ports included. Empty: those
	// that Cyborg lists are taken for all.
	ARQs []string
	// ServiceVersion is the version of the nova-compute service that gates some
	// operations, and RPC the minor version of its RPC API 5. Zero: current.
	ServiceVersion, RPC int
	// ProjectID and UserID own its allocation. Empty: those of the token.
	ProjectID, UserID string
}

// InstanceOf is the instance that a request of [Flow.Run] has brought about.
func InstanceOf(request Request, result *Result) Instance {
	i := Instance{
		UUID: result.Instance, Host: result.Host, Flavor: request.Flavor, Ports: slices.Clone(request.Ports),
		ProjectID: request.ProjectID, UserID: request.UserID,
	}
	for _, arq := range result.ARQs {
		i.ARQs = append(i.ARQs, arq.UUID)
	}
	for _, bound := range result.Ports {
		for n := range i.Ports {
			if i.Ports[n].UUID == bound.Port {
				i.Ports[n].BindingProfile = bound.BindingProfile
			}
		}
	}
	return i
}

// hasProfile and hasPort are the columns D and P of Nova's rules: a flavor with
// a device profile, a port with an accelerator.
func (i Instance) hasProfile() bool {
	_, ok := i.Flavor.DeviceProfile()
	return ok
}

func (i Instance) hasPort() bool { return slices.ContainsFunc(i.Ports, Port.Accelerated) }

func (i Instance) accelerated() bool { return i.hasProfile() || i.hasPort() }

// portARQs are the ports by their ARQ.
func (i Instance) portARQs() map[string]Port {
	ports := make(map[string]Port, len(i.Ports))
	for _, port := range i.Ports {
		if arq, _ := port.BindingProfile["arq_uuid"].(string); arq != "" {
			ports[arq] = port
		}
	}
	return ports
}

func (i Instance) check() error {
	if err := checkUUID("instance", i.UUID); err != nil {
		return err
	}
	for _, arq := range i.ARQs {
		if err := checkUUID("ARQ of instance "+i.UUID, arq); err != nil {
			return err
		}
	}
	return checkPorts(i.Ports)
}

// Guest names the guest of an instance and its host for a [Driver].
type Guest struct {
	Instance string
	// Host is the name of the compute node.
	Host string
}

// ErrNoGuest is what a [Driver] reports about a guest that its host does not
// know.
var ErrNoGuest = errors.New("no such guest")

// Driver is the hypervisor of the hosts, given by the caller: with libvirt, one
// call of its domain API each. Every method may be called again after a failure,
// also after one that was none.
type Driver interface {
	// Domain gives the saved XML of a guest, with which it starts the next time,
	// and whether it runs. The error matches ErrNoGuest when there is none.
	Domain(ctx context.Context, guest Guest) (domain []byte, running bool, err error)
	// Define saves the XML of a guest; one that runs is not touched. After an
	// error the old XML is still saved.
	Define(ctx context.Context, guest Guest, domain []byte) error
	// Start starts a guest of its saved XML; one that runs already is an error.
	Start(ctx context.Context, guest Guest) error
	// Shutdown asks a guest to power off and waits until it has, or gives up with
	// an error; then the guest still runs.
	Shutdown(ctx context.Context, guest Guest) error
	// Destroy powers a guest off. One that does not run, or is not there, is none.
	Destroy(ctx context.Context, guest Guest) error
	// Undefine forgets the saved XML of a guest that does not run. One that is not
	// there is no error.
	Undefine(ctx context.Context, guest Guest) error
}

// Operations are what happens to instances after their spawn: Nova's rules for
// accelerators, with its losses repaired. They are safe for parallel use, one
// operation per instance.
//
// Operations that the accelerators forbid return a [*BlockedError] before
// anything is asked or changed; see [Rules]. Those that free accelerators go on
// when the caller's context ends in the middle, bounded by Config.UnwindTimeout,
// and name what could not be freed in an [*Error].
type Operations struct {
	flow   *Flow
	driver Driver
}

// Operations gives the operations of this flow over the guests of a driver. The
// error matches ErrConfig.
func (f *Flow) Operations(driver Driver) (*Operations, error) {
	if driver == nil {
		return nil, fmt.Errorf("%w: operations need a driver for the guests", ErrConfig)
	}
	return &Operations{flow: f, driver: driver}, nil
}

func (i Instance) guest() Guest { return Guest{Instance: i.UUID, Host: i.Host} }

// begin checks an instance, applies Nova's rule and marks the instance as busy,
// so that a reconciliation leaves it alone.
func (o *Operations) begin(op Operation, i Instance) (end func(), err error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	if err := Permit(op, i); err != nil {
		return nil, err
	}
	o.flow.enter(i.UUID)
	return func() { o.flow.leave(i.UUID) }, nil
}

// failed names the operation and the instance.
func failed(op Operation, i Instance, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("spawn: %s of instance %s: %w", op, i.UUID, err)
}

// domain gives the saved XML and whether the guest runs.
func (o *Operations) domain(ctx context.Context, i Instance) (domain []byte, running bool, err error) {
	domain, running, err = o.driver.Domain(ctx, i.guest())
	if err != nil {
		return nil, false, fmt.Errorf("read the guest on host %s: %w", i.Host, err)
	}
	if _, err := domainxml.Read(domain); err != nil {
		return nil, false, err
	}
	return domain, running, nil
}
