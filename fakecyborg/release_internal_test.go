package fakecyborg

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// columnNames are the headings of the columns of the table.
func columnNames() []string {
	names := make([]string, colI+1)
	for _, p := range pointReleases() {
		if names[p.column] != "" {
			names[p.column] += ", "
		}
		names[p.column] += p.version
	}
	for i := range names {
		names[i] = string(rune('A'+i)) + ": " + names[i]
	}
	return names
}

// tableLine is a line of a table. A cell that is the same as the one before is "=".
func tableLine(b *strings.Builder, topic string, cells []string) {
	b.WriteString("| " + topic + " |")
	for i, cell := range cells {
		if i > 0 && cell == cells[i-1] {
			cell = "="
		}
		b.WriteString(" " + cell + " |")
	}
	b.WriteString("\n")
}

// perColumn are the values of a row in all columns.
func perColumn(t *testing.T, topic string, value func(release) string) []string {
	t.Helper()
	cells := make([]string, colI+1)
	for _, p := range pointReleases() {
		cell := value(p.release(nil))
		if cells[p.column] != "" && cells[p.column] != cell {
			t.Errorf("%s: %s and %s in one column", topic, cell, cells[p.column])
		}
		cells[p.column] = cell
	}
	if len(slices.Compact(slices.Clone(cells))) == 1 {
		t.Errorf("%s is the same in all releases", topic)
	}
	return cells
}

// policyTopic is a row of the table of releases with the rules that it is about.
type policyTopic struct {
	number int
	text   string
	rules  []string
}

func policyTopics() []policyTopic {
	return []policyTopic{
		{13, "GET one request", []string{"arq:get_one"}},
		{16, "GET one device profile", []string{"device_profile:get_one"}},
		{17, "list device profiles", []string{"device_profile:get_all"}},
		{
			18, "read devices, deployables and attributes",
			[]string{"device:get_all", "device:get_one", "deployable:get_all", "deployable:get_one", "attribute:get_all", "attribute:get_one"},
		},
		{19, "program a deployable, create and delete attributes", []string{"deployable:program", "attribute:create", "attribute:delete"}},
		{20, "create requests", []string{"arq:create"}},
	}
}

// releaseTables are the tables of what the releases do differently.
func releaseTables(t *testing.T) map[string]string {
	t.Helper()
	rows, changes := make(map[int]string), "| topic | behaviour, and the release that it begins with |\n|---|---|\n"
	add := func(number int, topic string, value func(release) string) {
		if rows[number] != "" {
			t.Errorf("row %d twice", number)
		}
		var b strings.Builder
		tableLine(&b, fmt.Sprintf("%d | %s", number, topic), perColumn(t, topic, value))
		rows[number] = b.String()
	}
	for i := range reflect.TypeFor[release]().NumField() {
		field := reflect.TypeFor[release]().Field(i)
		value := func(r release) string { return fmt.Sprint(reflect.ValueOf(r).Field(i)) }
		topic := field.Tag.Get("doc")
		switch number, err := strconv.Atoi(field.Tag.Get("row")); {
		case !field.IsExported():
		case topic == "":
			t.Errorf("%s has no row", field.Name)
		case err == nil:
			add(number, topic, value)
		default:
			var parts []string
			before := ""
			for _, p := range pointReleases() {
				if now := value(p.release(nil)); now != before {
					parts, before = append(parts, p.version+": "+now), now
				}
			}
			changes += "| " + topic + " | " + strings.Join(parts, "; ") + " |\n"
		}
	}
	columns := columnNames()
	var policyRows strings.Builder
	policyRows.WriteString("| rule | " + strings.Join(columns, " | ") + " |\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	rules := make(map[string]row[role])
	server, err := New(Config{Release: ReleaseMaster})
	settled(t, err)
	t.Cleanup(server.Close)
	for _, r := range server.routes() {
		if server.policies[r.operation] != r.policy {
			t.Errorf("%s has two policies", r.operation)
		}
		if known, again := rules[r.policy.rule]; again && known != r.policy.roles {
			t.Errorf("%s has two rows of roles", r.policy.rule)
		} else if again || r.policy.rule == "" {
			continue
		}
		rules[r.policy.rule] = r.policy.roles
		cells := make([]string, len(columns))
		for _, point := range pointReleases() {
			cells[point.column] = string(r.policy.roles.at(point.release(nil).policies))
		}
		tableLine(&policyRows, "`"+strings.TrimPrefix(r.policy.rule, "cyborg:")+"`", cells)
	}
	for _, topic := range policyTopics() {
		add(topic.number, topic.text, func(r release) string { return string(rules["cyborg:"+topic.rules[0]].at(r.policies)) })
		for _, rule := range topic.rules {
			if rules["cyborg:"+rule] != rules["cyborg:"+topic.rules[0]] {
				t.Errorf("%s: rule %s has other roles", topic.text, rule)
			}
		}
	}
	numbers := slices.Sorted(maps.Keys(rows))
	if len(numbers) != 26 || numbers[25] != 26 {
		t.Errorf("the rows are %v, want 1 to 26", numbers)
	}
	var table, names strings.Builder
	table.WriteString("| # | topic | " + strings.Join(columns, " | ") + " |\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, number := range numbers {
		table.WriteString(rows[number])
	}
	names.WriteString("| series | point release | column |\n|---|---|---|\n")
	for _, p := range pointReleases() {
		fmt.Fprintf(&names, "| `%s` | `%s` | %c |\n", p.series, p.version, 'A'+p.column)
	}
	return map[string]string{"names": names.String(), "releases": table.String(), "policies": policyRows.String(), "agents": changes}
}

func TestThePageOfReleasesHasTheTablesOfTheServer(t *testing.T) {
	t.Parallel()
	for name, table := range releaseTables(t) {
		file := filepath.Join("..", "docs", "dev", "cyborg-api.md")
		if name == "names" {
			file = filepath.Join("..", "docs", "cyborg-api.md")
		}
		data, err := os.ReadFile(file)
		settled(t, err)
		page := string(data)
		begin, end := "<!-- "+name+": generated -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok1 := strings.Cut(page, begin)
		got, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Fatalf("%s lacks the marks %q and %q", file, begin, end)
		}
		page = before + begin + table + end + after
		if diff := cmp.Diff(table, got); diff != "" && os.Getenv("GOCYBORG_UPDATE") == "" {
			t.Errorf("%s (-want +got); GOCYBORG_UPDATE=1 go test ./fakecyborg writes it:\n%s", file, diff)
		}
		if os.Getenv("GOCYBORG_UPDATE") != "" {
			settled(t, os.WriteFile(file, []byte(page), 0o600))
		}
	}
}

// A comparison of releases outside of the tables, of releases and of the routes' policies, would be missing in them.
func TestOnlyTheTablesCompareReleases(t *testing.T) {
	t.Parallel()
	compares := regexp.MustCompile(`[=!]= *Release[A-Z0-9]|case Release[A-Z0-9]|\.Release *[=!]=|\bcol[A-I]\b|\bseries1?[0-9]\b`)
	rolesOfRoute := regexp.MustCompile(`row\[role\]\{[^}]*\}`)
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == "release.go" {
			return err
		}
		data, err := os.ReadFile(path)
		if found := compares.Find(rolesOfRoute.ReplaceAll(data, nil)); found != nil {
			t.Errorf("%s has %q", path, found)
		}
		return err
	})
	settled(t, err)
}
