package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	got, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok || !ok2:
		t.Fatalf("%s lacks the marks %q and %q", name, begin, end)
	case got == want:
	case os.Getenv("GOCYBORG_UPDATE") == "":
		t.Errorf("docs/%s is not as generated; GOCYBORG_UPDATE=1 go test ./cmd/cysim/... writes it", name)
	default:
		if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// controlRoutes are the routes below /_sim/ that a server tells.
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
	model := filepath.Join(t.TempDir(), "model.json")
	if err := os.WriteFile(model, []byte(`{"hosts": []}`), 0o600); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, command := range parser.Model.Leaves(true) {
		writeCommand(&text, command)
	}
	compareGenerated(t, "cli.md", text.String())
}

func writeCommand(text *strings.Builder, command *kong.Node) {
	summary := "cysim " + strings.TrimSuffix(command.Summary(), " [flags]")
	fmt.Fprintf(text, "## cysim %s\n\n%s\n\n", command.Path(), command.Help)
	for node := command; node != nil; node = node.Parent {
		if node.Detail != "" && node.Type == kong.CommandNode {
			fmt.Fprintf(text, "%s\n\n", node.Detail)
		}
	}
	fmt.Fprintf(text, "```text\n%s\n```\n\n", summary)
	if len(command.Positional) > 0 {
		text.WriteString("| argument | |\n|---|---|\n")
		for _, argument := range command.Positional {
			fmt.Fprintf(text, "| `%s` | %s |\n", argument.Summary(), cell(argument.Help))
		}
		text.WriteString("\n")
	}
	title := ""
	for i, flag := range ownFlags(command) {
		group := ""
		if flag.Group != nil {
			group = flag.Group.Title
		}
		if i == 0 || group != title {
			title = group
			fmt.Fprintf(text, "\n| %s | |\n|---|---|\n", strings.TrimSuffix(group+" flags", ": flags"))
		}
		name := "--" + flag.Name
		if flag.Short != 0 {
			name = "-" + string(flag.Short) + ", " + name
		}
		if !flag.IsBool() {
			name += "=" + flag.FormatPlaceHolder()
		}
		fmt.Fprintf(text, "| `%s` | %s |\n", strings.ReplaceAll(name, "|", `\|`), cell(flag.Help))
	}
	text.WriteString("\n")
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
