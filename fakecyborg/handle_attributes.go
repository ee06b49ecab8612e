package fakecyborg

import (
	"encoding/json"
	"net/http"
	"time"
)

func (s *Server) listAttributes(r request) (int, any, error) {
	if err := s.authorize(r.caller, ruleAttrList); err != nil {
		return 0, nil, err
	}
	query, err := queryArgs(r, "deployable_id", "key")
	if err != nil {
		return 0, nil, err
	}
	deployable := 0
	if query.Has("deployable_id") {
		if deployable, err = checkInt("deployable_id", query.Get("deployable_id")); err != nil {
			return 0, nil, err
		}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := []attributeBody{}
	for _, a := range s.state.attributes.rows {
		if query.Has("deployable_id") && a.deployable.id != deployable || !matches(query, "key", a.key) {
			continue
		}
		list = append(list, r.links.attribute(a))
	}
	return http.StatusOK, map[string]any{"attributes": list}, nil
}

// findAttribute takes any text for a uuid.
func (s *Server) findAttribute(id string) (*attributeRow, error) {
	if a, ok := s.state.attributes.get(id); ok {
		return a, nil
	}
	return nil, refuse(kindNotFound, "Attribute not found with uuid=%s", id)
}

func (s *Server) getAttribute(r request) (int, any, error) {
	if err := s.authorize(r.caller, ruleAttrRead); err != nil {
		return 0, nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	a, err := s.findAttribute(r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, r.links.attribute(a), nil
}

// createAttribute stores an attribute beside those of the driver. It is
// Cyborg's alone: Placement never hears of it.
func (s *Server) createAttribute(r request) (int, any, error) {
	body, err := readBody(r, "req_attr")
	if err != nil {
		return 0, nil, err
	}
	if err := s.authorize(r.caller, ruleAttrCreate); err != nil {
		return 0, nil, err
	}
	in, err := parseAttribute(body)
	if err != nil {
		return 0, nil, err
	}
	now := s.clock.Now()
	s.lock(r.Context())
	defer s.unlock()
	part, ok := s.state.deployables.byID(in.deployable)
	if !ok {
		return 0, nil, refuse(kindNoReferent, "FOREIGN KEY constraint failed: there is no deployable %d", in.deployable)
	}
	return http.StatusCreated, r.links.attribute(s.state.createAttribute(part, in, now)), nil
}

// createAttribute stores an attribute that a user made.
func (st *state) createAttribute(part *deployableRow, in attributeInput, now time.Time) *attributeRow {
	a := &attributeRow{
		record:     record{uuid: st.newUUID("attribute"), created: now},
		deployable: part, key: in.key, value: in.value, byAPI: true,
	}
	st.insertAttribute(a)
	return a
}

// attributeInput is the body of a create.
type attributeInput struct {
	deployable int
	key, value string
}

// parseAttribute coerces the values to text and drops unknown fields.
func parseAttribute(body []byte) (attributeInput, error) {
	if !json.Valid(body) {
		return attributeInput{}, errJSON
	}
	if jsonKind(body) != '{' {
		return attributeInput{}, refuse(kindUncoded, "attribute is not an object")
	}
	fields, err := decodeObject(body)
	if err != nil {
		return attributeInput{}, err
	}
	text := make(map[string]string)
	for _, f := range fields {
		if f.key != "deployable_id" && f.key != "key" && f.key != "value" || jsonKind(f.value) == 'n' {
			continue
		}
		if text[f.key], err = scalarText(f.value); err != nil {
			return attributeInput{}, refuse(kindInvalid, "attribute %s: %v", f.key, err)
		}
	}
	for _, name := range []string{"deployable_id", "key", "value"} {
		if _, ok := text[name]; !ok {
			return attributeInput{}, refuse(kindUncoded, "Cannot load '%s' in the base class", name)
		}
		if len(text[name]) > maxName {
			return attributeInput{}, refuse(kindUncoded, "Data too long for column '%s'", name)
		}
	}
	in := attributeInput{key: text["key"], value: text["value"]}
	in.deployable, err = checkInt("deployable_id", text["deployable_id"])
	return in, err
}

func (s *Server) deleteAttribute(r request) (int, any, error) {
	query, err := queryArgs(r, "uuid")
	if err != nil {
		return 0, nil, err
	}
	id := r.PathValue("id")
	if id == "" {
		id = query.Get("uuid")
	}
	if id == "" {
		return 0, nil, missing("uuid")
	}
	if err := s.authorize(r.caller, ruleAttrDelete); err != nil {
		return 0, nil, err
	}
	s.lock(r.Context())
	defer s.unlock()
	a, err := s.findAttribute(id)
	if err != nil {
		return 0, nil, err
	}
	s.state.removeAttribute(a)
	return http.StatusNoContent, nil, nil
}
