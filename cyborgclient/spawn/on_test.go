package spawn

// On returns the flow with another hypervisor, or nil. It shares the state of the flow's operations.
func (f *Flow) On(h Hypervisor) *Flow {
	p := *f.process
	p.hypervisor = h
	return &Flow{process: &p, cyborg: f.cyborg}
}
