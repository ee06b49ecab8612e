package fakecyborg

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
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
	list := []attributeBody{}
	s.db.View(func(tx store.Tx) {
		for a := range tx.AllAttributes() {
			if !matches(query, "key", a.Key) {
				continue
			}
			if body := r.links.attribute(tx, a); !query.Has("deployable_id") || body.Deployable == int64(deployable) {
				list = append(list, body)
			}
		}
	})
	return http.StatusOK, map[string]any{"attributes": list}, nil
}

func (s *Server) getAttribute(r request) (int, any, error) {
	if err := s.authorize(r.caller, ruleAttrRead); err != nil {
		return 0, nil, err
	}
	var body attributeBody
	var err error
	s.db.View(func(tx store.Tx) {
		var a store.Attribute
		a, err = tx.Attribute(r.PathValue("id"))
		body = r.links.attribute(tx, a)
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, body, nil
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
	var answer attributeBody
	s.update(r.Context(), func(tx store.Tx) {
		part, ok := tx.DeployableByID(int64(in.deployable))
		if !ok {
			err = store.Refuse(store.NoReferent, "FOREIGN KEY constraint failed: there is no deployable %d", in.deployable)
			return
		}
		answer = r.links.attribute(tx, tx.CreateAttribute(part.UUID, in.key, in.value, now))
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, answer, nil
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
		return attributeInput{}, store.Refuse(store.Uncoded, "attribute is not an object")
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
			return attributeInput{}, store.Refuse(store.Invalid, "attribute %s: %v", f.key, err)
		}
	}
	for _, name := range []string{"deployable_id", "key", "value"} {
		if _, ok := text[name]; !ok {
			return attributeInput{}, store.Refuse(store.Uncoded, "Cannot load '%s' in the base class", name)
		}
		if len(text[name]) > store.MaxName {
			return attributeInput{}, store.Refuse(store.Uncoded, "Data too long for column '%s'", name)
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
	if err := s.removeAttribute(r.Context(), id); err != nil {
		return 0, nil, err
	}
	return http.StatusNoContent, nil, nil
}

func (s *Server) removeAttribute(ctx context.Context, uuid string) (err error) {
	s.update(ctx, func(tx store.Tx) {
		var a store.Attribute
		if a, err = tx.Attribute(uuid); err == nil {
			tx.DeleteAttribute(a)
		}
	})
	return err
}
