package fakecyborg

import (
	"errors"
	"fmt"
	"slices"
)

// storedStates are those that a request may be found in.
func storedStates() []State {
	return []State{
		StateInitial, StateBindStarted, StateBound, StateUnbound, StateBindFailed, StateUnbindFailed, StateDeleting, StateProvisioning,
	}
}

func (l *loading) addARQs() error {
	if err := each("accelerator_requests", l.d.ARQs, func(d dumpARQ) string { return d.name() }, l.addARQ); err != nil {
		return err
	}
	for _, h := range l.st.handles.rows {
		if h.taken && h.arq == nil && !h.needsAgent() {
			return fmt.Errorf("attach handle %s: in use, and no request names it", h.uuid)
		}
	}
	return nil
}

func (l *loading) addARQ(d dumpARQ) error {
	profile, ok := l.st.profiles.get(d.Profile)
	switch {
	case !ok:
		return fmt.Errorf("there is no device profile %q", d.Profile)
	case d.Group < 0 || d.Group >= len(profile.groups):
		return fmt.Errorf("device profile %s has no group %d", profile.name, d.Group)
	case !slices.Contains(storedStates(), d.State):
		return fmt.Errorf("state %q is none that is stored", d.State)
	}
	from, err := loadImage(d.Image)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	a := &arqRow{
		profile: profile, group: d.Group, state: d.State, host: d.Hostname, provider: d.Provider,
		project: d.Project, image: from, failure: d.Failure,
	}
	if err := l.hold(a, d); err != nil {
		return err
	}
	if err := checkRowUUID(d.UUID); err != nil {
		return err
	}
	if err := fill(&l.st.arqs, a, d.dumpRecord); err != nil {
		return err
	}
	l.st.setInstance(a, d.Instance)
	profile.arqs++
	return nil
}

// hold gives a request its handle, by the rules of SetARQState.
func (l *loading) hold(a *arqRow, d dumpARQ) error {
	idle := d.State == StateInitial || d.State == StateUnbound
	if idle && (d.Hostname != "" || d.Provider != "" || d.Instance != "") {
		return fmt.Errorf("%s with hostname %q, device_rp_uuid %q, instance_uuid %q", d.State, d.Hostname, d.Provider, d.Instance)
	}
	if d.Handle == "" {
		if d.State == StateBound || d.State == StateProvisioning {
			return fmt.Errorf("%s without an attach handle", d.State)
		}
		return nil
	}
	h, ok := l.st.handles.get(d.Handle)
	switch {
	case !ok:
		return fmt.Errorf("there is no attach handle %q", d.Handle)
	case idle:
		return fmt.Errorf("%s with attach handle %s", d.State, h.uuid)
	case !h.taken:
		return fmt.Errorf("attach handle %s is not in use", h.uuid)
	case h.arq != nil:
		return fmt.Errorf("attach handle %s is that of ARQ %s", h.uuid, h.arq.uuid)
	case d.Provider != h.deployable.provider:
		return fmt.Errorf("device_rp_uuid %q, and attach handle %s is of provider %s", d.Provider, h.uuid, h.deployable.provider)
	}
	h.arq, a.handle = a, h
	return nil
}

// loadImage reads what image.dump writes.
func loadImage(fields map[string]string) (image, error) {
	if len(fields) > 1 {
		return image{}, errors.New("more than one is named")
	}
	for by, value := range fields {
		if !slices.Contains(selectors(false), selector(by)) || value == "" {
			return image{}, fmt.Errorf("%s %q names none", by, value)
		}
		return image{selector(by), value}, nil
	}
	return image{}, nil
}

func (l *loading) addBinds() error {
	begun := make(map[*arqRow]bool)
	for i, b := range l.d.Binds {
		run := &bindRun{silent: b.Silent}
		for _, request := range b.Requests {
			job, err := l.job(request, b.Silent)
			if err == nil && job.arq != nil && begun[job.arq] {
				err = errors.New("it is being bound twice")
			}
			if err != nil {
				return fmt.Errorf("binds[%d], ARQ %s: %w", i, request.ARQ, err)
			}
			if job.arq != nil {
				begun[job.arq] = true
			}
			l.st.track(run, job)
		}
		if len(run.jobs) == 0 {
			return fmt.Errorf("binds[%d] is about no request", i)
		}
		l.halted.runs = append(l.halted.runs, run)
	}
	return nil
}

// job makes the job of a bind again, or one of which only Nova has to hear.
func (l *loading) job(d dumpBinding, silent bool) (*bindJob, error) {
	job := &bindJob{uuid: d.ARQ, server: d.Instance, profile: d.Profile}
	switch d.State {
	case StateBindStarted:
		return job, l.begin(job, d)
	case StateBound, StateBindFailed:
		if silent || len(d.Program) > 0 {
			return nil, fmt.Errorf("%s, so that it is over", d.State)
		}
		job.ended = d.State
		return job, checkRowUUID(d.ARQ)
	}
	return nil, fmt.Errorf("state %q is none of a bind", d.State)
}

func (l *loading) begin(job *bindJob, d dumpBinding) error {
	a, ok := l.st.arqs.get(d.ARQ)
	switch {
	case !ok:
		return errors.New("there is no such request")
	case a.state != StateBindStarted || a.handle == nil:
		return fmt.Errorf("it is %s, or holds no attach handle", a.state)
	case a.instance != d.Instance || a.profile.name != d.Profile:
		return fmt.Errorf("it is of instance %q and device profile %s", a.instance, a.profile.name)
	}
	wanted, err := loadImage(d.Program)
	if err != nil {
		return fmt.Errorf("program: %w", err)
	}
	job.arq, job.handle, job.attempt, job.image, job.mdev = a, a.handle, a.attempt, wanted, a.handle.needsAgent()
	a.programs = wanted.wanted()
	return nil
}
