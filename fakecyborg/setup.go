package fakecyborg

import (
	"context"
	"fmt"
	"slices"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// owner is who the methods of the direct API act for: Nova, as an administrator.
func owner(project string) caller {
	return caller{Identity: simhttp.Identity{User: "direct", Project: project, Roles: []string{"admin"}}, service: true}
}

// DeleteDeviceProfile deletes the profile of a name. The error, for an unknown one
// and for one that requests use, has the API's text.
func (s *Server) DeleteDeviceProfile(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.state.profileByName(name)
	if err == nil {
		err = s.state.deleteProfile(p)
	}
	if err != nil {
		return fmt.Errorf("fakecyborg: delete device profile %s: %w", name, err)
	}
	return nil
}

// CreateARQs makes the requests of a device profile for a project, as POST
// accelerator_requests does. The error has the API's text.
func (s *Server) CreateARQs(profile, project string) ([]ARQ, error) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	arqs, err := s.state.createARQs(profile, project, image{}, now)
	if err != nil {
		return nil, fmt.Errorf("fakecyborg: create ARQs of %s: %w", profile, err)
	}
	return arqs, nil
}

// Binding says where a request is to be bound.
type Binding struct {
	ARQ, Host, Provider, Instance string
}

// Bind binds requests as one PATCH does, events and all. The error has the API's
// text; with Config.AsyncBind or an FPGA to be programmed, the binds end later.
func (s *Server) Bind(ctx context.Context, bindings ...Binding) error {
	patches := make([]arqPatch, 0, len(bindings))
	for _, b := range bindings {
		args := bindArgs{host: b.Host, provider: b.Provider, instance: b.Instance}
		if err := args.check(); err != nil && !s.cfg.UpstreamQuirks {
			return fmt.Errorf("fakecyborg: bind ARQ %s: %w", b.ARQ, err)
		}
		args.project = s.projectOf(b.ARQ)
		patches = append(patches, arqPatch{arq: b.ARQ, args: args})
	}
	return s.patch(ctx, "bind", patches)
}

// projectOf is the project that a request keeps when it is bound.
func (s *Server) projectOf(arq string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if a, ok := s.state.arqs.get(arq); ok {
		return a.project
	}
	return ""
}

// Unbind frees the handles of requests and makes them Unbound, as a PATCH does.
func (s *Server) Unbind(ctx context.Context, arqs ...string) error {
	patches := make([]arqPatch, 0, len(arqs))
	for _, arq := range arqs {
		patches = append(patches, arqPatch{arq: arq, remove: true})
	}
	return s.patch(ctx, "unbind", patches)
}

func (s *Server) patch(ctx context.Context, verb string, patches []arqPatch) error {
	if len(patches) == 0 {
		return nil
	}
	if err := s.applyPatch(ctx, owner(""), patches); err != nil {
		return fmt.Errorf("fakecyborg: %s: %w", verb, err)
	}
	return nil
}

// DeleteARQs frees the handles of requests and deletes them. It stops at the
// first that cannot be deleted.
func (s *Server) DeleteARQs(ctx context.Context, arqs ...string) error {
	for _, arq := range arqs {
		if err := s.remove(ctx, arq, scope{all: true}); err != nil {
			return fmt.Errorf("fakecyborg: delete ARQ %s: %w", arq, err)
		}
	}
	return nil
}

// SetARQState puts a request into a state that would take others to bring about,
// so that clients can be tried against it. Nova hears nothing. A request that
// holds no attach handle cannot be Bound or provisioning, one that holds one
// cannot be Initial or Unbound, and unknown is no state but the lack of one. The
// error has the reason; nothing is changed then.
func (s *Server) SetARQState(arq string, state State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.state.findARQ(arq, scope{all: true})
	if err != nil {
		return fmt.Errorf("fakecyborg: set state: %w", err)
	}
	held := a.handle != nil
	if held && a.handle.busy {
		return fmt.Errorf("fakecyborg: set state: ARQ %s: the agent is at work on it", arq)
	}
	problem := ""
	switch state {
	case StateBound, StateProvisioning:
		if !held {
			problem = "it holds no attach handle"
		}
	case StateInitial, StateUnbound:
		if held {
			problem = "it holds attach handle " + a.handle.uuid
		}
	case StateBindStarted, StateBindFailed, StateUnbindFailed, StateDeleting:
	default:
		problem = "there is no such state to store"
	}
	if problem != "" {
		return fmt.Errorf("fakecyborg: set state: ARQ %s, %s: %s", arq, state, problem)
	}
	now := s.clock.Now()
	a.attempt++ // a bind in progress is overtaken
	if state == StateInitial || state == StateUnbound {
		s.state.clearBinding(a, now)
	}
	a.state, a.updated, a.programs, a.failure = state, now, false, ""
	return nil
}

// SetDeviceStatus enables or disables a device, as POST devices/{uuid}/enable and
// disable do, Placement included. The error has the API's text.
func (s *Server) SetDeviceStatus(ctx context.Context, device, status string) error {
	if !slices.Contains([]string{StatusEnabled, StatusMaintaining}, status) {
		return fmt.Errorf("fakecyborg: device %s: there is no status %q", device, status)
	}
	if err := s.changeStatus(ctx, device, status); err != nil {
		return fmt.Errorf("fakecyborg: %w", err)
	}
	return nil
}

// ProgramDeployable writes an image of Glance to a deployable, as PATCH
// deployables/{uuid}/program does for an administrator. The error has the API's
// text.
func (s *Server) ProgramDeployable(ctx context.Context, deployable, imageID string) error {
	s.mu.RLock()
	part, err := s.findDeployable(deployable)
	s.mu.RUnlock()
	if err == nil {
		err = s.programFor(ctx, part, imageID, owner(""))
	}
	if err != nil {
		return fmt.Errorf("fakecyborg: program: %w", err)
	}
	return nil
}
