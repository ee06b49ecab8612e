package differential

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Report holds the counts of a run.
type Report struct {
	// Table is the name of the table.
	Table string `json:"table"`
	// Requests that both services answered.
	Requests int `json:"requests"`
	// Unlisted is the number of differences that belong to no class.
	Unlisted int `json:"unlisted"`
	// Counts are differences by the name of their class.
	Counts map[string]int `json:"counts"`
}

// Write writes the report into a directory, as a JSON file with the name of the table.
func (r Report) Write(directory string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	name := "differential-" + strings.ReplaceAll(strings.ToLower(r.Table), " ", "-") + ".json"
	return os.WriteFile(filepath.Join(directory, name), append(data, '\n'), 0o600)
}

// ReadReports reads what Write wrote.
func ReadReports(directory string) ([]Report, error) {
	names, err := filepath.Glob(filepath.Join(directory, "differential-*.json"))
	if err != nil {
		return nil, err
	}
	var reports []Report
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var report Report
		if err := json.Unmarshal(data, &report); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// Lists are the sections of docs/dev/differential.md that list the known differences, with the counts of a run. What was not
// counted has a dash.
func Lists(reports []Report) string {
	of := make(map[string]Report)
	for _, report := range reports {
		of[report.Table] = report
	}
	var b strings.Builder
	for _, table := range Tables() {
		report := of[table.Name]
		fmt.Fprintf(&b, "\n## %s\n\n%d requests.\n\n| difference | what the real service does, and ours | count |\n|---|---|---|\n", table.Name, report.Requests)
		for _, class := range table.Classes {
			count := "-"
			if n, ok := report.Counts[class.Name]; ok {
				count = strconv.Itoa(n)
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(class.Name), cell(class.Why), count)
		}
	}
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

var (
	pageHead     = regexp.MustCompile(`^## (.*)$`)
	pageRequests = regexp.MustCompile(`^(\d+) requests\.$`)
	pageRow      = regexp.MustCompile(`^\| (.*?) \| .* \| (\d+) \|$`)
)

// ParseLists reads the counts that Lists wrote.
func ParseLists(text string) []Report {
	var reports []Report
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if found := pageHead.FindStringSubmatch(line); found != nil {
			reports = append(reports, Report{Table: found[1], Counts: make(map[string]int)})
		}
		if len(reports) == 0 {
			continue
		}
		last := &reports[len(reports)-1]
		if found := pageRequests.FindStringSubmatch(line); found != nil {
			last.Requests, _ = strconv.Atoi(found[1])
		}
		if found := pageRow.FindStringSubmatch(line); found != nil {
			last.Counts[strings.ReplaceAll(found[1], `\|`, "|")], _ = strconv.Atoi(found[2])
		}
	}
	return reports
}
