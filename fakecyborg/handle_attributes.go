package fakecyborg

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

func (s *Server) listAttributes(c *simhttp.Call) error {
	args, err := s.arguments(c)
	if err != nil {
		return err
	}
	deployable, _ := strconv.ParseInt(strings.TrimSpace(args.last("deployable_id")), 10, 64) // arguments has checked it; 0 filters nothing
	links, list := s.links(c), []attributeBody{}
	s.db.View(func(tx store.Tx) {
		for a := range tx.AllAttributes() {
			body := links.attribute(tx, a)
			if s.matches(args, "key", a.Key) && (deployable == 0 || body.Deployable == deployable) {
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

// createAttribute stores an attribute beside those of the driver. Such an attribute is not in
// Placement.
func (s *Server) createAttribute(c *simhttp.Call) error {
	body, err := readJSON(c, "req_attr")
	if err != nil {
		return err
	}
	in, err := parseAttribute(body)
	if err != nil {
		return err
	}
	now := s.clock.Now()
	var answer attributeBody
	s.update(c.Context(), func(tx store.Tx) {
		d, ok := tx.DeployableByID(int64(in.deployable))
		if !ok {
			err = store.Refuse(store.NoReferent, "FOREIGN KEY constraint failed: there is no deployable %d", in.deployable)
			return
		}
		answer = s.links(c).attribute(tx, tx.CreateAttribute(d.UUID, in.key, in.value, now))
		answer.CreatedAt = stampOfNew(now)
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, answer)
}

// attributeInput is the body of a create.
type attributeInput struct {
	deployable int
	key, value string
}

// parseAttribute reads the values as text and drops unknown fields.
func parseAttribute(body json.RawMessage) (in attributeInput, err error) {
	if jsonKind(body) != '{' {
		return in, store.Refuse(store.Uncoded, "attribute is not an object")
	}
	names := []string{"deployable_id", "key", "value"}
	texts, err := textsOf("attribute ", body, names...)
	if err != nil {
		return in, err
	}
	for _, name := range names {
		text, ok := texts[name]
		if !ok {
			return in, store.Refuse(store.Uncoded, "Cannot load '%s' in the base class", name)
		}
		if len(text) > store.MaxName {
			return in, store.Refuse(store.Uncoded, "Data too long for column '%s'", name)
		}
	}
	in.key, in.value = texts["key"], texts["value"]
	in.deployable, err = checkInt("deployable_id", texts["deployable_id"])
	return in, err
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
