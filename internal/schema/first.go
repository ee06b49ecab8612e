package schema

// First is [Set.Validate] for services that report what the schema's order finds first, as the Python library's
// Validator.validate does. Validate reports the best match, as the library's function validate does.
func (s *Set) First(name string, value any) error {
	n, err := s.node(name)
	if err != nil {
		return err
	}
	r := &run{library: s.library}
	n.check(r, value)
	if r.found == nil {
		return nil
	}
	return s.newViolation(r.found[0])
}

// Value is the part of the value, as [Decode] returned it.
func (v *Violation) Value() any { return v.failed.value }
