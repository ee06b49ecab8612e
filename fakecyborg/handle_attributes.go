package fakecyborg

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

func (s *Server) listAttributes(c *simhttp.Call) error {
	args, err := s.arguments(c)
	if err != nil {
		return err
	}
	deployable, _ := store.ParseInteger(args.last("deployable_id")) // arguments has checked it; 0 filters nothing
	links, list := s.links(c), []attributeBody{}
	s.db.View(func(tx store.Tx) {
		for a := range tx.AllAttributes() {
			body := links.attribute(tx, a)
			if s.matches(args, "key", a.Key) && (deployable == 0 || body.Deployable == int64(deployable)) {
				list = append(list, body)
			}
		}
	})
	return c.JSON(http.StatusOK, map[string]any{"attributes": list})
}

func (s *Server) getAttribute(c *simhttp.Call) error {
	id := c.PathValue("id")
	if err := checkUUID("uuid", id); err != nil {
		return err
	}
	if _, err := s.arguments(c); err != nil {
		return err
	}
	body, err := store.Find(s.db, func(tx store.Tx) (attributeBody, error) {
		a, err := tx.Attribute(id)
		return s.links(c).attribute(tx, a), err
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, body)
}

// createAttribute stores an attribute in addition to the driver's. It is not reported to Placement.
func (s *Server) createAttribute(c *simhttp.Call) error {
	body, err := s.readBody(c, "req_attr")
	if err != nil {
		return err
	}
	in, deployable, err := s.parseAttribute(body)
	if err != nil {
		return err
	}
	now := s.clock.Now()
	var answer attributeBody
	s.update(c.Context(), func(tx store.Tx) {
		d, ok := tx.DeployableByID(deployable)
		if !ok {
			err = store.Refuse(store.NoReferent, "FOREIGN KEY constraint failed: there is no deployable %d", deployable)
			return
		}
		in.Deployable = d.UUID
		if in, err = tx.CreateAttribute(in, now); err == nil {
			answer = s.links(c).attribute(tx, in)
			answer.CreatedAt = stampOfNew(now)
		}
	})
	if err == nil {
		err = showable(in.UUID)
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, answer)
}

// parseAttribute reads the fields as upstream's object does (cyborg/objects/attribute.py) and drops unknown ones. The deployable is
// the one with the number.
func (s *Server) parseAttribute(body json.RawMessage) (in store.Attribute, deployable int64, err error) {
	if jsonKind(body) != '{' {
		return in, 0, raised("cyborg.objects.attribute.Attribute() argument after ** must be a mapping, not %s", typeName(body))
	}
	given := make(map[string]bool)
	for _, m := range membersOf(body) {
		given[m.key] = true
		n := 0
		switch m.key {
		case "id":
			_, err = integerField(m)
		case "deployable_id":
			n, err = integerField(m)
			deployable = int64(n)
		case "uuid":
			in.UUID, err = textField(m)
		case "key":
			in.Key, err = textField(m)
		case "value":
			in.Value, err = textField(m)
		case "created_at", "updated_at":
			err = checkTimeField(m)
		}
		if err != nil {
			return in, 0, err
		}
	}
	switch {
	case !given["deployable_id"]:
		return in, 0, raised("Cannot load 'deployable_id' in the base class")
	case !given["key"]:
		return in, 0, raised("Column 'key' cannot be null")
	case !given["value"]:
		return in, 0, raised("Column 'value' cannot be null")
	}
	return in, deployable, in.Check(s.cfg.UpstreamQuirks)
}

func (s *Server) deleteAttribute(c *simhttp.Call) error {
	id, err := s.deletedID(c, "uuid")
	if err != nil {
		return err
	}
	if s.release.AttributeDelete == deleteFails { // the handler calls a method of the row on its class
		return store.Refuse(store.Internal, "'RequestContext' object has no attribute 'dbapi'")
	}
	if err := s.removeAttribute(c.Context(), id); err != nil {
		return err
	}
	return c.Empty(http.StatusNoContent)
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
