package spawn

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/holding"
	"github.com/gocyborg/gocyborg/requestspec"
)

// Instance is a spawned instance, as [Operations] need it. An agent stores it with the instance; [InstanceOf] creates
// it from the result of the spawn.
type Instance struct {
	UUID string
	// Host is the name of its compute node, or its short name. It is empty for an instance that is shelved and
	// offloaded.
	Host string
	// Flavor is the Flavor of [Result], because a Rocky flavor has no device profile.
	Flavor requestspec.Flavor
	// Image is the Image of [Request].
	Image string
	// Ports are its network ports, with their binding profiles as Neutron stores them. A port whose profile no longer
	// names its ARQ is matched with the only remaining ARQ of its device profile.
	Ports []Port
	// ARQs are the UUIDs of all its ARQs, including ARQs of ports and ARQs from [Flow.AddDevices]. If empty, and the
	// flavor or a port has a device profile, the ARQs that Cyborg lists are used.
	ARQs []string
	// ServiceVersion is the version of the nova-compute service, and RPC the minor version of its RPC API 5; some
	// operations need a minimum. 0 means current.
	ServiceVersion, RPC int
	// ProjectID and UserID own its allocation. They default to the project and user of the token, or, with the role
	// admin, to the project of its allocation. When the instance is deleted, an empty project is unknown.
	ProjectID, UserID string
}

// InstanceOf returns the instance that [Flow.Run] spawned for a request. If the request has no project, it is the
// project of the ARQs, because another token may be used later.
func InstanceOf(request Request, result *Result) Instance {
	i := Instance{
		UUID: result.Instance, Host: result.Host, Flavor: request.Flavor, Image: request.Image, Ports: slices.Clone(request.Ports),
		ARQs: uuidsOf(result.ARQs), ProjectID: request.ProjectID, UserID: request.UserID,
	}
	if len(result.ARQs) > 0 {
		i.ProjectID = cmp.Or(i.ProjectID, result.ARQs[0].ProjectID)
	}
	if _, ok := result.Flavor.DeviceProfile(); ok { // a result may lack the flavor
		i.Flavor = result.Flavor
	}
	for n, port := range i.Ports {
		if bound := slices.IndexFunc(result.Ports, func(p Port) bool { return p.UUID == port.UUID }); bound >= 0 {
			i.Ports[n] = result.Ports[bound]
		}
	}
	return i
}

// hasProfile reports whether the flavor has a device profile. If an instance with ARQs has a Rocky flavor, it was
// converted into a flavor with a profile.
func (i Instance) hasProfile() bool {
	_, ok := i.Flavor.DeviceProfile()
	if !ok && len(i.ARQs) > 0 {
		_, ok, _ = requestspec.FromRocky(i.Flavor, false)
	}
	return ok
}

func (i Instance) hasPort() bool { return slices.ContainsFunc(i.Ports, Port.Accelerated) }

// hasDevice reports whether the instance has an accelerator that does not belong to a port: from the flavor, or added
// while it was running.
func (i Instance) hasDevice() bool {
	ports := 0
	for _, port := range i.Ports {
		if port.Accelerated() {
			ports++
		}
	}
	return i.hasProfile() || len(i.ARQs) > ports
}

func (i Instance) accelerated() bool { return i.hasDevice() || i.hasPort() }

// isOn reports whether the instance is on a host.
func (i Instance) isOn(host string) bool { return i.Host != "" && holding.SameHost(host, i.Host) }

// portsOf returns the ports by their ARQs. Neutron clears the binding profile of an unbound port, and other clients
// may write it, so a port whose profile names none of the ARQs is matched by device profile. The error matches
// ErrRequest if the numbers of such ports and ARQs differ, if an ARQ may belong to the flavor or to a port with
// another MAC, or if a profile names the ARQ of another port or device profile.
func (i Instance) portsOf(arqs []cyborgclient.ARQ) (map[string]Port, error) {
	ports := make(map[string]Port, len(i.Ports))
	lost := map[string][]Port{} // by device profile
	for _, port := range i.Ports {
		n := slices.IndexFunc(arqs, func(arq cyborgclient.ARQ) bool { return arq.UUID == port.ARQ() })
		switch {
		case n < 0 && port.Accelerated():
			lost[port.DeviceProfile] = append(lost[port.DeviceProfile], port)
		case n < 0:
		case ports[port.ARQ()].UUID != "":
			return nil, fmt.Errorf("%w: the binding profiles of ports %s and %s name one ARQ, %s", ErrRequest, ports[port.ARQ()].UUID, port.UUID, port.ARQ())
		case arqs[n].DeviceProfileName != port.DeviceProfile:
			return nil, fmt.Errorf("%w: the binding profile of port %s of device profile %q names ARQ %s, which is of %q",
				ErrRequest, port.UUID, port.DeviceProfile, port.ARQ(), arqs[n].DeviceProfileName)
		default:
			ports[port.ARQ()] = port
		}
	}
	flavors, _ := i.Flavor.DeviceProfile()
	for _, profile := range slices.Sorted(maps.Keys(lost)) {
		candidates := slices.DeleteFunc(slices.Clone(arqs), func(arq cyborgclient.ARQ) bool {
			_, named := ports[arq.UUID]
			return named || arq.DeviceProfileName != profile
		})
		isAlike := !slices.ContainsFunc(lost[profile], func(port Port) bool { return port.MAC != "" })
		if profile == flavors || len(candidates) != len(lost[profile]) || len(candidates) > 1 && !isAlike {
			return nil, fmt.Errorf("%w: the binding profile of port %s names no ARQ of the instance, and of %s of device profile %s it is not known which is its",
				ErrRequest, lost[profile][0].UUID, count(len(candidates), "ARQ"), profile)
		}
		for n, arq := range candidates {
			ports[arq.UUID] = lost[profile][n]
		}
	}
	return ports, nil
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
