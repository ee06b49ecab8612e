package simcloud

import (
	"fmt"

	"github.com/gocyborg/gocyborg/internal/glance"
	"github.com/gocyborg/gocyborg/sim"
)

// Requests returns the newest requests since the cloud was made, in the order in which
// they started, 20000 at most. A request that a service sends while it serves another one
// follows that one.
func (c *Cloud) Requests() []sim.Exchange { return c.recorder.Exchanges() }

// ForgetRequests empties the record.
func (c *Cloud) ForgetRequests() { c.recorder.Reset() }

// DefineGuest adds a guest or replaces the one with its UUID. The error matches [ErrHost] for a host that the cloud does not
// have; a guest without a host is not scheduled yet. Other errors are for a malformed UUID and for a domain that is not the
// XML of a domain.
func (c *Cloud) DefineGuest(g sim.Guest) error {
	if g.Host != "" && !c.isHost(g.Host) && !c.hasRoot(g.Host) {
		return fmt.Errorf("define guest %s: %w", g.UUID, c.noHost(g.Host))
	}
	return c.compute.DefineGuest(g)
}

// RemoveGuest removes a guest. Removing a missing guest is not an error.
func (c *Cloud) RemoveGuest(uuid string) { c.compute.RemoveGuest(uuid) }

// Guests lists the guests, sorted by UUID.
func (c *Cloud) Guests() []sim.Guest {
	list := []sim.Guest{}
	for _, g := range c.compute.Guests() {
		list = append(list, g.Guest)
	}
	return list
}

// ReceivedEvents lists the newest events that the compute endpoint received, in order.
func (c *Cloud) ReceivedEvents() []sim.ReceivedEvent { return c.compute.Events() }

// AddImage adds an image to the image service and returns it with its id. The error is for
// an id that is malformed or exists, and for a property with the name of a field.
func (c *Cloud) AddImage(i Image) (Image, error) {
	created, err := c.images.AddImage(glance.Image{
		ID: i.ID, Name: i.Name, Properties: i.Properties, Data: append([]byte{}, i.Data...),
		DiskFormat: "raw", ContainerFormat: "bare",
	})
	if err != nil {
		return Image{}, fmt.Errorf("simcloud: add image: %w", err)
	}
	return imageOf(created), nil
}

// Images lists the images, those of users included, oldest first.
func (c *Cloud) Images() []Image {
	var list []Image
	for _, i := range c.images.Images() {
		list = append(list, imageOf(i))
	}
	return list
}

func imageOf(i glance.Image) Image {
	return Image{ID: i.ID, Name: i.Name, Properties: i.Properties, Data: string(i.Data)}
}
