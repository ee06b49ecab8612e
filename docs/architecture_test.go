package docs_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Each file and package that the page names is there.
func TestTheArchitecturePageNamesExistingFiles(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("dev/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z]+(?:/[a-z0-9_]+)*(?:\\.go)?)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 40 {
		t.Fatalf("the page names %d files and packages, want 40 and more", len(named))
	}
	for _, match := range named {
		if _, err := os.Stat("../" + match[1]); err != nil {
			t.Error(err)
		}
	}
}

// Each operation of a route is declared and listed in the files that the page names for its service.
func TestTheArchitecturePageNamesTheListsOfRoutes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("dev/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	declared, err := os.ReadFile("../fault/operations.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := make(map[sim.OperationName]string)
	for _, match := range regexp.MustCompile(`(\w+) +sim\.OperationName = "(.+)"`).FindAllStringSubmatch(string(declared), -1) {
		constants[sim.OperationName(match[2])] = match[1]
	}
	lists := make(map[string]string) // the source of the lists, by service
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+)\\.\\*` \\| (.*) \\| `(.*)` \\|$").FindAllStringSubmatch(string(page), -1) {
		for _, file := range regexp.MustCompile("`(.*?)`").FindAllStringSubmatch(row[2], -1) {
			source, err := os.ReadFile("../" + file[1])
			if err != nil {
				t.Fatal(err)
			}
			lists[row[1]] += string(source)
		}
	}
	routes := servedRoutes(t)
	if len(lists) != 5 || len(routes) < 100 {
		t.Fatalf("the page names the lists of %d services with %d routes, want 5 with 100 and more", len(lists), len(routes))
	}
	for _, r := range routes {
		service, _, _ := strings.Cut(string(r.Operation), ".")
		if !regexp.MustCompile(`fault\.` + constants[r.Operation] + `\b`).MatchString(lists[service]) {
			t.Errorf("%s %s: no list of the page has fault.%s", r.Method, r.Pattern, constants[r.Operation])
		}
	}
}

// servedRoutes are the routes of a whole cloud.
func servedRoutes(t *testing.T) []sim.Route {
	t.Helper()
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
	return body.Routes
}
