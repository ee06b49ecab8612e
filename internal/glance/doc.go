// Package glance is a stand-in for Glance's API v2 as far as bitstream images need it:
// images with their properties, searched by property, and their data.
//
// It deliberately has one store, no import workflows, no sharing with members, no tasks
// and no signatures: Cyborg only reads images that operators have uploaded. Images of another
// project that are not public are not found, as in Glance.
//
// Server.State has the images and their data.
//
// Behaviour follows glance/api/v2/images.py, glance/api/v2/image_data.py and
// glance/api/versions.py of the 2024 releases. Errors are HTML, as there.
//
//	images := glance.New(glance.Config{Verifier: identity})
//	image, err := images.AddImage(glance.Image{
//		Name: "gzip", Properties: map[string]string{"accel:function_id": id}, Data: bits,
//	})
package glance
