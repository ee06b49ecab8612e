package fakecyborg

import "fmt"

// Attribute is a key and a value of a deployable.
type Attribute struct {
	UUID           string
	DeployableUUID string
	Key, Value     string
	// ByUser tells that no driver reported it. Placement does not hear of such
	// an attribute.
	ByUser bool
}

// Attributes returns the attributes of all deployables, oldest first.
func (s *Server) Attributes() []Attribute {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]Attribute, 0, len(s.state.attributes.rows))
	for _, a := range s.state.attributes.rows {
		list = append(list, a.attribute())
	}
	return list
}

func (a *attributeRow) attribute() Attribute {
	return Attribute{UUID: a.uuid, DeployableUUID: a.deployable.uuid, Key: a.key, Value: a.value, ByUser: a.byAPI}
}

// CreateAttribute gives a deployable an attribute, as POST attributes does. The
// error, for an unknown deployable, an empty or too long text, has the API's text.
func (s *Server) CreateAttribute(deployable, key, value string) (Attribute, error) {
	fail := func(err error) (Attribute, error) {
		return Attribute{}, fmt.Errorf("fakecyborg: create attribute %s of deployable %s: %w", key, deployable, err)
	}
	if key == "" || len(key) > maxName || len(value) > maxName {
		return fail(refuse(kindInvalid, "key and value have at most %d bytes, the key at least one", maxName))
	}
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	part, err := s.findDeployable(deployable)
	if err != nil {
		return fail(err)
	}
	return s.state.createAttribute(part, attributeInput{key: key, value: value}, now).attribute(), nil
}

// DeleteAttribute takes an attribute away, as DELETE attributes does. The error,
// for an unknown one, has the API's text.
func (s *Server) DeleteAttribute(uuid string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.findAttribute(uuid)
	if err != nil {
		return fmt.Errorf("fakecyborg: delete attribute: %w", err)
	}
	s.state.removeAttribute(a)
	return nil
}
