package glance

import (
	"reflect"
	"testing"
)

// Whoever adds a field to the state decides here whether it is in the dump, and in the
// random histories that are compared after one.
func TestEveryFieldOfTheStateIsDumpedOrDerived(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		of     any
		fields map[string]string
	}{
		{Server{}, map[string]string{
			"clock": "configuration", "verifier": "configuration", "service": "configuration; its ids are dumped", "ids": "dumped",
			"mu": "a lock", "images": "dumped",
		}},
		{Image{}, map[string]string{
			"ID": "dumped", "Name": "dumped", "Owner": "dumped", "Visibility": "dumped", "DiskFormat": "dumped", "ContainerFormat": "dumped",
			"Tags": "dumped", "Properties": "dumped", "Data": "dumped", "CreatedAt": "dumped", "UpdatedAt": "dumped",
		}},
	} {
		of := reflect.TypeOf(tt.of)
		for i := range of.NumField() {
			if tt.fields[of.Field(i).Name] == "" {
				t.Errorf("%s.%s: is it dumped?", of, of.Field(i).Name)
			}
		}
		if of.NumField() != len(tt.fields) {
			t.Errorf("%s has %d fields, and %d are listed", of, of.NumField(), len(tt.fields))
		}
	}
}
