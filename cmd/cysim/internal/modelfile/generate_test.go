package modelfile

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

const (
	module = "github.com/gocyborg/gocyborg"
	root   = "../../../.."
)

// capitals are where a word begins in a name.
var capitals = regexp.MustCompile(`([a-z])([A-Z])`)

// generator describes the types of a model, with their comments.
type generator struct {
	t         *testing.T
	read      map[string]bool
	comments  map[string]string   // of path.Type and path.Type.Field
	constants map[string]string   // values, by path.Name
	values    map[string][]string // of constants, by path.Type
	order     []string            // of the names in defs
	defs      map[string]map[string]any
}

func newGenerator(t *testing.T) *generator {
	return &generator{t, map[string]bool{}, map[string]string{}, map[string]string{}, map[string][]string{}, nil, map[string]map[string]any{}}
}

// load reads the comments of a package.
func (g *generator) load(pkg string) {
	if g.read[pkg] || !strings.HasPrefix(pkg, module) {
		return
	}
	g.read[pkg] = true
	files, err := filepath.Glob(root + strings.TrimPrefix(pkg, module) + "/*.go")
	if err != nil || len(files) == 0 {
		g.t.Fatalf("%s: no files, %v", pkg, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		must(g.t, err)
		ast.Inspect(file, func(node ast.Node) bool {
			if decl, ok := node.(*ast.GenDecl); ok {
				g.declaration(pkg, file, decl)
			}
			return true
		})
	}
}

func (g *generator) declaration(pkg string, file *ast.File, decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			g.typeSpec(pkg+"."+spec.Name.Name, spec, decl)
		case *ast.ValueSpec:
			if decl.Tok != token.CONST || len(spec.Values) != 1 {
				continue
			}
			text := g.constant(file, spec.Values[0])
			g.constants[pkg+"."+spec.Names[0].Name] = text
			if typ, ok := spec.Type.(*ast.Ident); ok && text != "" {
				g.values[pkg+"."+typ.Name] = append(g.values[pkg+"."+typ.Name], text)
			}
		}
	}
}

// constant is the value of a text, which may be a constant of another package; else it is empty.
func (g *generator) constant(file *ast.File, value ast.Expr) string {
	switch value := value.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(value.Value); err == nil && value.Kind == token.STRING {
			return text
		}
	case *ast.SelectorExpr:
		for _, spec := range file.Imports {
			pkg, err := strconv.Unquote(spec.Path.Value)
			if id, ok := value.X.(*ast.Ident); ok && err == nil && path.Base(pkg) == id.Name {
				g.load(pkg)
				return g.constants[pkg+"."+value.Sel.Name]
			}
		}
	}
	return ""
}

func (g *generator) typeSpec(name string, spec *ast.TypeSpec, decl *ast.GenDecl) {
	if spec.Doc == nil {
		spec.Doc = decl.Doc
	}
	g.comments[name] = plain(spec.Doc)
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	shared := ""
	for _, field := range fields.Fields.List {
		text := plain(field.Doc)
		if text == "" {
			text = plain(field.Comment)
		}
		if text == "" {
			text = shared // a comment describes the fields up to the next blank line
		}
		shared = text
		for _, id := range field.Names {
			g.comments[name+"."+id.Name] = text
		}
	}
}

// plain is a comment in one line, without the brackets of links.
func plain(comment *ast.CommentGroup) string {
	text := strings.Join(strings.Fields(comment.Text()), " ")
	return strings.NewReplacer("[", "", "]", "").Replace(text)
}

func definition(t reflect.Type) string { return path.Base(t.PkgPath()) + "." + t.Name() }

// schema is the schema of a type.
func (g *generator) schema(t reflect.Type) map[string]any {
	name := t.PkgPath() + "." + t.Name()
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "string", "pattern": `^-?([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$`}
	case t.Kind() == reflect.Pointer:
		return g.schema(t.Elem())
	case strings.HasSuffix(name, "/driver/pci.AddressPattern"), strings.HasSuffix(name, "/driver/pci.Managed"), strings.HasSuffix(name, "/driver/pci.Whitelist"):
		return map[string]any{} // several forms
	case strings.HasSuffix(name, "/placementsim.Release"):
		return map[string]any{"type": "string"} // more than the constants
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint8:
		return map[string]any{"type": "integer"}
	case reflect.Uint64, reflect.Uint, reflect.Uint32, reflect.Uint16:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		g.load(t.PkgPath())
		if t == reflect.TypeFor[fakecyborg.Release]() { // most do not have a constant
			names := []string{""}
			for _, release := range fakecyborg.Releases() {
				names = append(names, release.Names()...)
			}
			return map[string]any{"enum": names}
		}
		if values := g.values[name]; len(values) > 0 {
			return map[string]any{"enum": append([]string{""}, values...)}
		}
		return map[string]any{"type": "string"}
	case reflect.Slice:
		return map[string]any{"type": []string{"array", "null"}, "items": g.schema(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": g.schema(t.Elem())}
	case reflect.Struct:
		g.define(t)
		return map[string]any{"$ref": "#/$defs/" + definition(t)}
	}
	g.t.Fatalf("no schema for %s", t)
	return nil
}

func (g *generator) define(t reflect.Type) {
	name := definition(t)
	if g.defs[name] != nil {
		return
	}
	g.load(t.PkgPath())
	properties := map[string]any{}
	g.defs[name] = map[string]any{
		"type": "object", "description": g.comments[t.PkgPath()+"."+t.Name()], "properties": properties, "additionalProperties": name == "driver.Deployable",
	}
	g.order = append(g.order, name)
	g.fields(t, properties)
}

func (g *generator) fields(t reflect.Type, properties map[string]any) {
	g.load(t.PkgPath())
	for field := range fieldsOf(t) {
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if key == "-" && field.Type == reflect.TypeFor[time.Duration]() { // written as text, by MarshalJSON
			key = strings.ToLower(capitals.ReplaceAllString(field.Name, "${1}_$2"))
		}
		switch {
		case key == "-" || !field.IsExported():
		case field.Anonymous && key == "":
			g.fields(field.Type, properties)
		default:
			property := g.schema(field.Type)
			text := g.comments[t.PkgPath()+"."+t.Name()+"."+field.Name]
			if ref, ok := property["$ref"]; ok { // old drafts allow no other key next to $ref
				property = map[string]any{"allOf": []any{map[string]any{"$ref": ref}}}
			}
			property["description"] = text
			properties[key] = property
		}
	}
}

func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// generated is the schema of a model.
func generated(t *testing.T) (*generator, []byte) {
	g := newGenerator(t)
	g.define(reflect.TypeFor[simcloud.Model]())
	whole := map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Model of a cloud for cysim serve --model",
		"$ref": "#/$defs/simcloud.Model", "$defs": g.defs,
	}
	data, err := json.MarshalIndent(whole, "", "  ")
	must(t, err)
	return g, append(data, '\n')
}

// page returns the generated part of docs/model.md: the fields of a model and of the objects in it, which
// the schema describes.
func (g *generator) page() string {
	var text strings.Builder
	text.WriteString("| field | value | description |\n|---|---|---|\n")
	properties := g.defs[g.order[0]]["properties"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		property := properties[key].(map[string]any)
		fmt.Fprintf(&text, "| `%s` | %s | %s |\n", key, kind(property), sentence(property["description"].(string)))
	}
	text.WriteString("\n## Objects\n\n| object | fields |\n|---|---|\n")
	for _, name := range g.order[1:] {
		fields := slices.Sorted(maps.Keys(g.defs[name]["properties"].(map[string]any)))
		if strings.HasSuffix(name, ".Config") && slices.Contains(fields, "trait_shape") && name != "builtin.Config" {
			fields = slices.DeleteFunc(fields, func(field string) bool { return slices.Contains(commonFields, field) })
		}
		if len(fields) == 0 {
			continue
		}
		fmt.Fprintf(&text, "| `%s` | `%s` |\n", name, strings.Join(fields, "`, `"))
	}
	return text.String()
}

// commonFields are in the configuration of each driver; the page lists them once, for builtin.Config.
var commonFields = strings.Fields("allowed_drivers extra_traits host local_memory mounts trait_shape")

// sentence is the first sentence of a text, for a cell of a table.
func sentence(text string) string {
	first, _, _ := strings.Cut(text, ". ")
	return strings.ReplaceAll(strings.TrimSuffix(first, ".")+".", "|", `\|`)
}

// kind names the values of a property.
func kind(property map[string]any) string {
	if list, ok := property["allOf"].([]any); ok {
		return kind(list[0].(map[string]any))
	}
	if ref, ok := property["$ref"].(string); ok {
		return "`" + strings.TrimPrefix(ref, "#/$defs/") + "`"
	}
	if values, ok := property["enum"].([]string); ok {
		return "`" + strings.Join(values[1:], "`, `") + "`"
	}
	switch typ := property["type"].(type) {
	case string:
		if property["pattern"] != nil {
			return "duration"
		}
		return typ
	case []string:
		if typ[0] == "array" {
			return "list of " + kind(property["items"].(map[string]any))
		}
		return "object of " + kind(property["additionalProperties"].(map[string]any))
	}
	return "several forms"
}

// compare compares a generated file, or the part of one between marks. GOCYBORG_UPDATE=1 writes it.
func compare(t *testing.T, name, begin, end, want string) {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	before, rest, ok := strings.Cut(string(data), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if begin == "" {
		before, got, after, ok, ok2 = "", string(data), "", true, true
	}
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks %q and %q", name, begin, end)
	}
	if got == want {
		return
	}
	if os.Getenv("GOCYBORG_UPDATE") == "" {
		t.Errorf("%s is not as generated; GOCYBORG_UPDATE=1 go test ./cmd/cysim/... writes it", name)
		return
	}
	must(t, os.WriteFile(name, []byte(before+begin+want+end+after), 0o600))
}

func TestSchemaAndItsPageAreGenerated(t *testing.T) {
	t.Parallel()
	g, want := generated(t)
	compare(t, "schema.json", "", "", string(want))
	compare(t, root+"/docs/model.md", "<!-- generated: fields -->\n", "<!-- end -->\n", g.page())
}
