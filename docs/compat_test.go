package docs_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/requestspec"
)

// codeIn are the texts in backticks of a page.
func codeIn(t *testing.T, page string) []string {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var code []string
	for i, text := range strings.Split(string(data), "`") {
		if i%2 == 1 {
			code = append(code, text)
		}
	}
	return code
}

// TestEveryCompatibilityOptionIsInTheTable holds the page to the struct, both ways.
func TestEveryCompatibilityOptionIsInTheTable(t *testing.T) {
	t.Parallel()
	var there []string
	for _, code := range codeIn(t, "compat.md") {
		if name, ok := strings.CutPrefix(code, "compat."); ok && name != "NAME" {
			there = append(there, name)
		}
	}
	var fields []string
	for i := range reflect.TypeFor[spawn.Compat]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[spawn.Compat]().Field(i).Tag.Get("json"), ",")
		fields = append(fields, name)
		if !slices.Contains(there, name) {
			t.Errorf("option %s of spawn.Compat is not in compat.md", name)
		}
	}
	for _, name := range there {
		if !slices.Contains(fields, name) {
			t.Errorf("compat.md names %s, which spawn.Compat does not have", name)
		}
	}
}

// TestEveryFieldNamedInTheCompatibilityPageExists looks at the fields of other structs.
func TestEveryFieldNamedInTheCompatibilityPageExists(t *testing.T) {
	t.Parallel()
	structs := map[string]reflect.Type{
		"fakecyborg.Config": reflect.TypeFor[fakecyborg.Config](), "requestspec.Options": reflect.TypeFor[requestspec.Options](),
		"spawn.Config": reflect.TypeFor[spawn.Config](),
		"spawn.Hooks":  reflect.TypeFor[spawn.Hooks](), "cyborgclient.CreateARQsOpts": reflect.TypeFor[cyborgclient.CreateARQsOpts](),
	}
	named := 0
	for _, code := range codeIn(t, "compat.md") {
		cut := strings.LastIndex(code, ".")
		if cut < 0 || structs[code[:cut]] == nil {
			continue
		}
		named++
		if _, ok := structs[code[:cut]].FieldByName(code[cut+1:]); !ok {
			t.Errorf("there is no field %s", code)
		}
	}
	if named < 6 {
		t.Errorf("only %d fields are named", named)
	}
}
