package spawn

// On returns the flow with another hypervisor, or none. It shares what the operations of the flow have made.
func (f *Flow) On(h Hypervisor) *Flow {
	p := *f.process
	p.hypervisor = h
	return &Flow{process: &p, cyborg: f.cyborg}
}
