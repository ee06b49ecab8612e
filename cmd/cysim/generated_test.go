package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// compareGenerated compares the generated part of a page. GOCYBORG_UPDATE=1 writes it.
func compareGenerated(t *testing.T, name, want string) {
	t.Helper()
	const begin, end = "<!-- generated -->\n", "<!-- end -->\n"
	file := "../../docs/" + name
	data, err := os.ReadFile(file)
	must(t, err)
	before, rest, ok := strings.Cut(string(data), begin)
	got, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s lacks the marks %q and %q", name, begin, end)
	case got == want:
	case os.Getenv("GOCYBORG_UPDATE") == "":
		t.Errorf("docs/%s is not as generated; GOCYBORG_UPDATE=1 go test ./cmd/cysim/... writes it", name)
	default:
		must(t, os.WriteFile(file, []byte(before+begin+want+end+after), 0o600))
	}
}

// controlRoutes are the routes below /_sim/ that a server lists.
func controlRoutes(t *testing.T, url string) []simhttp.ControlRoute {
	t.Helper()
	_, body := get(t, url+"/_sim/routes", "")
	var routes struct{ Control []simhttp.ControlRoute }
	if err := json.Unmarshal([]byte(body), &routes); err != nil || len(routes.Control) == 0 {
		t.Fatalf("%s: %v: %s", url, err, body)
	}
	return routes.Control
}

func TestTheControlPageIsGenerated(t *testing.T) {
	t.Parallel()
	cloud := start(t, "serve")
	placement := start(t, "placement")
	model := writeFile(t, "model.json", `{"hosts": []}`)
	cyborg := start(t, "cyborg", "--placement-url", placement.env["CYSIM_PLACEMENT_URL"], "--model", model)
	servers := make(map[string]string)
	for name, url := range map[string]string{"placement": placement.env["CYSIM_PLACEMENT_URL"], "cyborg": strings.TrimSuffix(cyborg.env["CYSIM_ACCELERATOR_URL"], "/v2")} {
		for _, route := range controlRoutes(t, url) {
			servers[route.Pattern] += ", " + name
		}
	}
	text := "| route | query | body | answer | what it does | also of |\n|---|---|---|---|---|---|\n"
	for _, route := range controlRoutes(t, cloud.env["CYSIM_URL"]) {
		query := strings.Join(route.Query, "`, `")
		switch query {
		case "":
		case "*":
			query = "checked by the route"
		default:
			query = "`" + query + "`"
		}
		also := strings.Split(strings.TrimPrefix(servers[route.Pattern], ", "), ", ")
		if len(also) == 2 {
			also = []string{"placement", "cyborg"}
		}
		text += fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |\n", route.Pattern, query, quoted(route.Body), quoted(route.Answer), route.Help, strings.Join(also, ", "))
		delete(servers, route.Pattern)
	}
	if len(servers) > 0 {
		t.Errorf("routes that no whole cloud has: %v", servers)
	}
	compareGenerated(t, "control-api.md", text)
}

// quoted marks keys as code.
func quoted(keys string) string {
	if keys == "" || strings.Contains(keys, "a list") || keys == "JSON lines" || keys == "text" {
		return keys
	}
	return "`" + strings.ReplaceAll(keys, ", ", "`, `") + "`"
}

func TestTheCommandPageIsGenerated(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(new(cli), kong.Name("cysim"), groups(), kong.PostBuild(describeFlags))
	must(t, err)
	var serve *kong.Node
	var text strings.Builder
	text.WriteString("| command | what it does |\n|---|---|\n")
	for _, command := range parser.Model.Leaves(true) {
		name := command.Path()
		for _, argument := range command.Positional {
			name += " " + argument.Summary()
		}
		fmt.Fprintf(&text, "| `cysim %s` | %s |\n", name, cell(command.Help))
		if command.Path() == "serve" {
			serve = command
		}
	}
	writeFlags(&text, serve)
	compareGenerated(t, "cli.md", text.String())
}

// writeFlags lists the flags of a command by their headings. cysim help describes them.
func writeFlags(text *strings.Builder, command *kong.Node) {
	fmt.Fprintf(text, "\n## Flags of cysim %s\n\n| group | flags |\n|---|---|\n", command.Path())
	title := ""
	for i, flag := range ownFlags(command) {
		if i == 0 || flag.Group.Title != title {
			if i > 0 {
				text.WriteString(" |\n")
			}
			title = flag.Group.Title
			fmt.Fprintf(text, "| %s | `--%s`", strings.TrimSuffix(title, ":"), flag.Name)
			continue
		}
		fmt.Fprintf(text, ", `--%s`", flag.Name)
	}
	text.WriteString(" |\n")
}

// ownFlags are the flags of a command, with those of one heading together.
func ownFlags(command *kong.Node) []*kong.Flag {
	var order []string
	byGroup := make(map[string][]*kong.Flag)
	for _, flag := range command.Flags {
		if flag.Hidden {
			continue
		}
		key := ""
		if flag.Group != nil {
			key = flag.Group.Key
		}
		if byGroup[key] == nil {
			order = append(order, key)
		}
		byGroup[key] = append(byGroup[key], flag)
	}
	var list []*kong.Flag
	for _, key := range order {
		list = append(list, byGroup[key]...)
	}
	return list
}

// cell is a text in a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
