package glance

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
)

// noteData notes that an image has got its data.
func noteData(r *http.Request, i Image) {
	simhttp.ChangeLogOf(r.Context()).AddSteps("image", i.ID, i.Name,
		tables.Step{Name: "status", From: "queued", To: i.status()}, tables.Step{Name: "size", To: strconv.Itoa(len(i.Data))})
}

// noteSteps notes which fields and properties of an image have changed, its data aside.
func noteSteps(r *http.Request, before, after Image) {
	notes := simhttp.ChangeLogOf(r.Context())
	if notes == nil {
		return
	}
	before.Data, after.Data = nil, nil // or their checksums would be made
	was, is := fieldsOf(before), fieldsOf(after)
	names := maps.Clone(was)
	maps.Copy(names, is)
	var steps []tables.Step
	for _, name := range slices.Sorted(maps.Keys(names)) {
		steps = append(steps, tables.Step{Name: name, From: was[name], To: is[name]})
	}
	notes.AddSteps("image", before.ID, before.Name, steps...)
}

// fieldsOf is what the API shows of an image as text, but for the time; null is empty and
// an empty text a pair of quotes.
func fieldsOf(i Image) map[string]string {
	fields := make(map[string]string)
	for name, value := range i.body() {
		if value != nil && name != "updated_at" {
			fields[name] = cmp.Or(fmt.Sprint(value), `""`)
		}
	}
	return fields
}
