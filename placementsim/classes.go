package placementsim

import (
	"net/http"
	"net/url"
	"time"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// sinceEnsureClass is the microversion from which PUT ensures that a class
// exists instead of renaming it.
const sinceEnsureClass version = 7

type linkBody struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

type classBody struct {
	Name  string     `json:"name"`
	Links []linkBody `json:"links"`
}

func classPath(name string) string { return "/resource_classes/" + url.PathEscape(name) }

func (c *call) classBody(class engine.Class) classBody {
	return classBody{class.Name, []linkBody{{"self", c.server.prefix + classPath(class.Name)}}}
}

func listClasses(c *call) error {
	bodies := []classBody{}
	var changed []time.Time
	for _, class := range c.server.state.Classes() {
		bodies = append(bodies, c.classBody(class))
		changed = append(changed, class.Changed)
	}
	c.modified(changed...)
	return c.JSON(http.StatusOK, map[string]any{"resource_classes": bodies})
}

func createClass(c *call) error {
	body, err := c.body("resource-class")
	if err != nil {
		return err
	}
	name := text(body.Get("name"))
	if !c.state().EnsureClass(name, c.now) {
		return simhttp.Refuse(http.StatusConflict, "Conflicting resource class already exists: %s", name)
	}
	c.location(classPath(name))
	return c.Empty(http.StatusCreated)
}

func getClass(c *call) error {
	class, err := c.server.state.Class(c.PathValue("name"))
	if err != nil {
		return err
	}
	c.modified(class.Changed)
	return c.JSON(http.StatusOK, c.classBody(class))
}

func putClass(c *call) error {
	name := c.PathValue("name")
	if c.version < sinceEnsureClass {
		return renameClass(c, name)
	}
	if err := c.server.schemas.Validate("resource-class", schema.Texts([]string{"name"}, func(string) string { return name })); err != nil {
		return badRequest("JSON does not validate: " + err.Error())
	}
	c.location(classPath(name))
	if c.state().EnsureClass(name, c.now) {
		return c.Empty(http.StatusCreated)
	}
	return c.Empty(http.StatusNoContent)
}

func renameClass(c *call, from string) error {
	body, err := c.body("resource-class")
	if err != nil {
		return err
	}
	to := text(body.Get("name"))
	if err := c.state().RenameClass(from, to, c.now); err != nil {
		return err
	}
	class, err := c.server.state.Class(to)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, c.classBody(class))
}

func deleteClass(c *call) error {
	return c.done(c.state().DeleteClass(c.PathValue("name")))
}
