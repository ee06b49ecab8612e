package simcloud

import (
	"net/http"
	"strings"

	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/sim"
)

// catalog has the long forms of the paths. The accelerator path must end in /v2, because Nova and
// gophercloud append to it.
func catalog() []keystone.CatalogEntry {
	return []keystone.CatalogEntry{
		{Type: "placement", Name: "placement", Path: "/placement"},
		{Type: "accelerator", Name: "cyborg", Path: "/accelerator/v2"},
		{Type: "compute", Name: "nova", Path: "/compute/v2.1"},
		{Type: "image", Name: "glance", Path: "/image"},
	}
}

// eventsURL is where a compute API takes events.
func eventsURL(compute string) string {
	return strings.TrimSuffix(compute, "/") + "/os-server-external-events"
}

// glance is the image service as Cyborg reaches it.
func (c *Cloud) glance() sim.Endpoint {
	elsewhere, ok := c.model.Catalog["image"]
	if !ok {
		return c.peer("/image/v2", "cyborg")
	}
	elsewhere = strings.TrimSuffix(elsewhere, "/")
	if !strings.HasSuffix(elsewhere, "/v2") {
		elsewhere += "/v2"
	}
	return sim.Endpoint{URL: elsewhere, Client: &http.Client{}, Token: c.tokenSource("cyborg")}
}
