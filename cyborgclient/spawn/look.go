package spawn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/holding"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// sight is the state of an instance on which an operation decides.
type sight struct {
	holding.Snapshot
	allocation placement.Allocation
	unlisted   error            // Cyborg does not list the ARQs
	unread     error            // Placement could not be read
	silences   map[string]error // errors of hosts that do not respond
}

// look reads the ARQs of an instance, and asks the hosts on which it may be for its guest. If the ARQs do not show
// that the instance is on its host, it also reads the allocation, unless it is given.
func (o *Operations) look(ctx context.Context, i Instance, down []string, held *placement.Allocation) *sight {
	s := &sight{Snapshot: holding.Snapshot{Host: i.Host, Down: down, Guests: map[string]holding.Guest{}}, silences: map[string]error{}}
	s.ARQs, s.unlisted = o.flow.instanceARQs(ctx, i.UUID)
	o.ask(ctx, s, i, s.Others())
	if s.Told() && s.Host != "" && len(s.Judged(holding.Unknown)) == 0 {
		return s
	}
	s.Nodes, s.unread = retry(ctx, o.flow, func(ctx context.Context) (_ map[string]string, err error) {
		if held != nil {
			s.allocation = *held
		} else if s.allocation, err = o.flow.placement.Allocation(ctx, i.UUID); err != nil {
			return nil, err
		}
		return o.flow.hostsOf(ctx, s.allocation.Resources)
	})
	if s.unread != nil {
		return s
	}
	s.Held = s.allocation.Resources
	others := s.Others()
	o.ask(ctx, s, i, others)
	isAbsent := func(host string) bool { return s.Guests[host] == holding.Absent }
	if !s.Told() && s.Host != "" && slices.ContainsFunc(others, func(host string) bool { return !isAbsent(host) }) {
		o.ask(ctx, s, i, []string{s.Host}) // the instance is there if the host responds
	}
	return s
}

// ask asks hosts for the guest of an instance, each once, except hosts that are down.
func (o *Operations) ask(ctx context.Context, s *sight, i Instance, hosts []string) {
	for _, host := range hosts {
		if _, asked := s.Guests[host]; asked || holding.Among(s.Down, host) {
			continue
		}
		switch err := o.guestOn(ctx, i, host); {
		case err == nil:
			s.Guests[host] = holding.Present
		case errors.Is(err, ErrNoGuest):
			s.Guests[host] = holding.Absent
		default:
			s.Guests[host], s.silences[host] = holding.Silent, err
		}
	}
}

// guestOn returns no error if an instance has a guest on a host.
func (o *Operations) guestOn(ctx context.Context, i Instance, host string) error {
	i.Host = host
	_, _, err := o.flow.hypervisor.Domain(ctx, i)
	return err
}

// elsewhere returns an error if an instance without a guest on its host has, or may have, one on another host.
func (o *Operations) elsewhere(ctx context.Context, i Instance) error {
	s := o.look(ctx, i, nil, nil)
	if err := s.moved(); err != nil {
		return err
	}
	return s.unread
}

// moved returns an error if the instance is, or may be, on another host than the caller named.
func (s *sight) moved() error {
	for _, host := range s.Judged(holding.Moved) {
		return &MovedError{Host: host, Why: "a guest"}
	}
	for _, host := range s.Judged(holding.Unknown) {
		return fmt.Errorf("ask for the guest on host %s, where the instance has ARQs or resources: %w", host, s.silences[host])
	}
	return nil
}

// Inspect returns the present host, ARQs and project of an instance, for a caller that does not know where it is, as
// after a [MovedError]. The host is the host of the newest ARQ that a guest may use, unless that host has no guest;
// without ARQs it is the host of the only guest, or of the allocation. Host is empty if the instance is on no host.
// The error names the hosts if there are several possible ones. Flavor, image, ports and versions are copied from i.
func (o *Operations) Inspect(ctx context.Context, i Instance) (Instance, error) {
	err := o.flow.operate(ctx, i, func(ctx context.Context, _ *remover) error {
		i.Host, i.ARQs = "", nil
		s := o.look(ctx, i, nil, nil)
		if err := errors.Join(s.unlisted, s.unread); err != nil {
			return &Error{Instance: i.UUID, Err: err}
		}
		hosts := s.Hosts()
		if len(hosts) > 1 {
			return &Error{Instance: i.UUID, Err: fmt.Errorf("the instance may be on each of hosts %s", hosts)}
		}
		i.ProjectID = cmp.Or(i.ProjectID, s.allocation.Project)
		for _, host := range hosts {
			i.Host = host
		}
		for _, arq := range s.ARQs {
			if i.isOn(arq.Hostname) || i.Host == "" {
				i.ARQs, i.ProjectID = append(i.ARQs, arq.UUID), cmp.Or(i.ProjectID, arq.ProjectID)
			}
		}
		return nil
	})
	return i, err
}
