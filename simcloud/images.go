package simcloud

import (
	"fmt"

	"github.com/gocyborg/gocyborg/internal/glance"
)

// AddImage puts an image into the image service and returns it with its id. The error is
// for an id that is no UUID or is taken, and for a property that is a field's name.
func (c *Cloud) AddImage(i Image) (Image, error) {
	made, err := c.images.AddImage(glance.Image{
		ID: i.ID, Name: i.Name, Properties: i.Properties, Data: append([]byte{}, i.Data...),
		DiskFormat: "raw", ContainerFormat: "bare",
	})
	if err != nil {
		return Image{}, fmt.Errorf("simcloud: add image: %w", err)
	}
	return imageOf(made), nil
}

// Images lists the images, oldest first, those of users included.
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
