package servicetest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/sim"
)

// gone takes a member away.
type gone struct{}

func decoded(t sim.TB, body string) any {
	t.Helper()
	var document any
	if err := json.Unmarshal([]byte(body), &document); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return document
}

// steps splits a declared path.
func steps(path string) []string {
	return slices.DeleteFunc(strings.Split(strings.ReplaceAll(path, "[]", ".[]"), "."), func(s string) bool { return s == "" })
}

// replace sets the first place that a path leads to, and returns false if there is no such place.
func replace(document *any, path []string, value any) bool {
	if len(path) == 0 {
		*document = value
		return true
	}
	switch v := (*document).(type) {
	case []any:
		for i := range v {
			if path[0] == "[]" && replace(&v[i], path[1:], value) {
				return true
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if path[0] != "*" && path[0] != key {
				continue
			}
			member := v[key]
			if !replace(&member, path[1:], value) {
				continue
			}
			if v[key] = member; member == (gone{}) {
				delete(v, key)
			}
			return true
		}
	}
	return false
}

// objects lists the places of all objects of a document.
func objects(document any, place []string) [][]string {
	var list [][]string
	switch v := document.(type) {
	case []any:
		for i, item := range v {
			list = append(list, objects(item, append(slices.Clone(place), fmt.Sprint(i)))...)
		}
	case map[string]any:
		list = append(list, place)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			list = append(list, objects(v[key], append(slices.Clone(place), key))...)
		}
	}
	return list
}

// at is the object at a place.
func at(document any, place []string) map[string]any {
	for _, step := range place {
		switch v := document.(type) {
		case []any:
			var i int
			_, _ = fmt.Sscan(step, &i) // written by objects
			document = v[i]
		case map[string]any:
			document = v[step]
		}
	}
	object, _ := document.(map[string]any)
	return object
}

// free reports whether the declared paths take any member of the object at a place: because
// of a *, or because the place is below the end of a path.
func free(paths []string, place []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		declared := steps(path)
		for i, step := range place {
			if i == len(declared) {
				return true
			}
			if declared[i] != step && declared[i] != "*" && declared[i] != "[]" {
				return false
			}
		}
		return len(declared) == len(place) || declared[len(place)] == "*"
	})
}
