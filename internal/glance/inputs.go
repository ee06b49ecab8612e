package glance

import "github.com/gocyborg/gocyborg/internal/simhttp"

// inputs is what each operation reads. In a list every key is a field or a property to
// search by, but for those that Glance sorts by, which mean nothing here; of an image
// every member is a field or a property, but for those without a meaning here.
func inputs() map[string]simhttp.Input {
	return map[string]simhttp.Input{
		"image.image.list":   {Query: []string{"*", "!sort", "!sort_key", "!sort_dir", "!member_status"}},
		"image.image.create": {Body: []string{"*", "!min_disk", "!min_ram", "!protected", "!os_hidden"}},
		"image.image.update": {Body: []string{"[].op", "[].path", "[].value"}},
		"image.file.put":     {Data: true},
	}
}
