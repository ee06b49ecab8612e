package verbatim

import (
	"reflect"
	"testing"
)

// Whoever adds a field to the state decides here whether it is in the dump.
func TestEveryFieldOfTheStateIsDumpedOrDerived(t *testing.T) {
	t.Parallel()
	fields := map[string]string{"devices": "configuration", "mu": "a lock", "mdevs": "dumped", "images": "dumped"}
	of := reflect.TypeFor[Driver]()
	for i := range of.NumField() {
		if fields[of.Field(i).Name] == "" {
			t.Errorf("%s.%s: is it dumped?", of, of.Field(i).Name)
		}
	}
	if of.NumField() != len(fields) {
		t.Errorf("%s has %d fields, and %d are listed", of, of.NumField(), len(fields))
	}
}
