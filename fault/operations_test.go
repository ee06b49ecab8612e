package fault_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// constant is one of operations.go.
type constant struct{ name, comment string }

func constants(t *testing.T) map[sim.OperationName]constant {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "operations.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	list := make(map[sim.OperationName]constant)
	for node := range ast.Preorder(file) {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			continue
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || list[sim.OperationName(text)].name != "" {
			t.Errorf("%s: %q is declared twice, or %v", spec.Names[0].Name, text, err)
		}
		list[sim.OperationName(text)] = constant{spec.Names[0].Name, strings.TrimSpace(spec.Comment.Text())}
	}
	return list
}

// A cloud has the operations of the constants and no others.
func TestEachOperationHasAConstant(t *testing.T) {
	t.Parallel()
	var declared []sim.OperationName
	for operation := range constants(t) {
		declared = append(declared, operation)
	}
	slices.Sort(declared)
	if diff := cmp.Diff(declared, simcloud.Run(t).Faults().Operations()); diff != "" {
		t.Errorf("operations (-constants +cloud):\n%s", diff)
	}
}

// A constant is named after its operation, with the service where that alone is ambiguous.
func TestConstantsAreNamedAfterTheirOperations(t *testing.T) {
	t.Parallel()
	for operation, c := range constants(t) {
		whole := strings.ReplaceAll(strings.ReplaceAll(string(operation), ".", ""), "_", "")
		_, rest, _ := strings.Cut(string(operation), ".")
		short := strings.ReplaceAll(strings.ReplaceAll(rest, ".", ""), "_", "")
		if name := strings.ToLower(c.name); name != whole && name != short {
			t.Errorf("%s is named %s", operation, c.name)
		}
	}
}

// The comments of the constants are the routes of their operations.
func TestTheCommentsOfConstantsAreTheirRoutes(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	res, err := (&http.Client{Transport: cloud.Transport()}).Get(cloud.URL() + "/_sim/routes")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body struct{ Routes []sim.Route }
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	served := make(map[sim.OperationName][]string)
	for _, r := range body.Routes {
		route := r.Method + " /" + strings.Trim(r.Pattern, "/")
		if r.Method != http.MethodHead && !slices.Contains(served[r.Operation], route) {
			served[r.Operation] = append(served[r.Operation], route)
		}
	}
	if len(served) == 0 {
		t.Fatal("no routes")
	}
	for operation, c := range constants(t) {
		if routes := strings.Join(served[operation], ", "); routes != "" && c.comment != routes {
			t.Errorf("%s: the comment is %q, want %q", c.name, c.comment, routes)
		}
	}
}
