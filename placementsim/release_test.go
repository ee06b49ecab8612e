package placementsim

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// releaseRow is a difference between releases: what each version answers, oldest first, as upstream's sources, which are named,
// have it. An unknown answer is a question mark.
type releaseRow struct {
	topic, source string
	want          []string
	ask           func(t *testing.T, release Release) string
}

func releaseRows() []releaseRow {
	cells := strings.Fields
	first := func(n int, before, from string) []string {
		return slices.Concat(slices.Repeat([]string{before}, n), slices.Repeat([]string{from}, 13-n))
	}
	status := func(path string, header ...string) func(*testing.T, Release) string {
		return func(t *testing.T, release Release) string {
			s := newServer(t, Config{Release: release})
			return fmt.Sprint(send(t, s, "1.39", "GET", path, "", header...).status)
		}
	}
	//                      8.0 9.0 10.0.0 10.0.1 11.0.0 11.0.1 12.0.0 12.0.1 12.0.2 13.0 14.0 15.0 16.0
	return []releaseRow{
		{"maximum microversion", "placement/microversion.py",
			cells("          1.39 1.39 1.39 1.39 1.39 1.39 1.39 1.39 1.39 1.39 1.39 1.39 1.39"), maximumMicroversion},
		{"max_allocation_candidates", "placement/conf/placement.py",
			cells("          -    -    -    1    -    1    -    1    1    1    1    1    1"), candidatesOfOne},
		{"allocation_candidates_generation_strategy", "placement/conf/placement.py, f20e13f",
			cells("          -    -    -    yes  -    yes  -    yes  yes  yes  yes  yes  yes"), hasStrategy},
		{"optimize_for_wide_provider_trees", "placement/conf/workarounds.py, 5b73b98",
			cells("          -    -    -    -    -    -    -    -    1    -    -    1    1"), candidatesOfWideTree},
		{"a write that lowers the use of an over-full inventory", "placement/objects/allocation.py, 5ac4c70",
			first(10, "409", "204"), lowerOverfullUse},
		{"roles of operators", "placement/policies/base.py, 636d65e3",
			first(1, "admin", "admin,service"), allowedRoles("GET", "/resource_providers")},
		{"roles that may reshape", "placement/policies/reshaper.py, 636d65e3; oslo.policy 206ae19",
			slices.Concat([]string{"admin"}, slices.Repeat([]string{"admin,service"}, 5), slices.Repeat([]string{"service"}, 7)), allowedRoles("POST", "/reshaper")},
		{"a token of an administrator that is scoped to the system", "636d65e3; oslo.policy 206ae19",
			first(6, "200", "403"), status("/resource_providers", "OpenStack-System-Scope", "all")},
		{"usages of the reader's project", "placement/policies/usage.py, 636d65e3",
			first(6, "?", "200"), status("/usages?project_id=p", "X-Auth-Token", "u:p", "X-Roles", "reader")},
		{"usages of another project", "placement/policies/usage.py, 636d65e3",
			first(6, "?", "403"), status("/usages?project_id=q", "X-Auth-Token", "u:p", "X-Roles", "reader")},
		{"text about an empty object", "upper-constraints.txt: jsonschema 4.14.0 to 4.26.0; jsonschema 4.21.0",
			first(9, "{} does not have enough properties", "{} should be non-empty"), emptyObjectText},
		{"keys of a schema in a text", "upper-constraints.txt: jsonschema 4.14.0 to 4.26.0; jsonschema 4.23.0",
			first(9, "{'maximum': 2147483647, 'minimum': 1, 'type': 'integer'}", "{'type': 'integer', 'maximum': 2147483647, 'minimum': 1}"), schemaText},
		{"text about a trailing comma", "Python 3.13, Lib/json/decoder.py",
			first(9, "Expecting property name enclosed in double quotes", "Illegal trailing comma before end of object"), trailingCommaText},
		// Upstream: 353 names in 3.1.0, 358 in 3.3.0. One and three are not known.
		{"standard traits", "upper-constraints.txt: os-traits 2.9.0, 2.10.0, 3.0.0, 3.1.0, 3.3.0, 3.5.0, 3.6.0, 3.9.0",
			cells("          345  348  349  349  349  349  352  352  352  355  369  372  377"), countTraits},
		{"OWNER_CYBORG", "os-traits 2.8.0, f64d50e", first(0, "", "204"), status("/traits/OWNER_CYBORG")},
		{"OWNER_NOVA", "os-traits 2.8.0, f64d50e", first(0, "", "204"), status("/traits/OWNER_NOVA")},
		{"COMPUTE_NET_VIRTIO_PACKED", "os-traits 3.0.0, ChangeLog", first(2, "404", "204"), status("/traits/COMPUTE_NET_VIRTIO_PACKED")},
	}
}

// versions are the columns of the rows.
func versions() []Release {
	return []Release{"8.0.0", "9.0.0", "10.0.0", "10.0.1", "11.0.0", "11.0.1", "12.0.0", "12.0.1", "12.0.2", "13.0.0", "14.0.0", "15.0.0", "16.0.0"}
}

func TestEachReleaseAnswersAsUpstream(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(versions(), Releases()); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
	for _, row := range releaseRows() {
		t.Run(row.topic, func(t *testing.T) {
			t.Parallel()
			var got []string
			for i, release := range versions() {
				answer := "?"
				if row.want[i] != answer {
					answer = row.ask(t, release)
				}
				got = append(got, answer)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", row.source, diff)
			}
		})
	}
}

func maximumMicroversion(t *testing.T, release Release) string {
	got := send(t, newServer(t, Config{Release: release}), "", "GET", "/", "")
	return fmt.Sprint(got.at(t, "versions", "0", "max_version"))
}

// configured is a server with two hosts, nil if its release does not have the configuration.
func configured(t *testing.T, cfg Config) *Server {
	t.Helper()
	s, err := New(cfg)
	if errors.Is(err, ErrConfig) {
		return nil
	}
	must(t, err)
	for _, name := range []string{"cn0", "cn1"} {
		addProvider(t, s, ResourceProvider{Name: name, Inventories: map[string]Inventory{"VGPU": {Total: 4}}})
	}
	return s
}

func candidatesOfOne(t *testing.T, release Release) string {
	s := configured(t, Config{Release: release, MaxAllocationCandidates: 1})
	if s == nil {
		return "-"
	}
	return fmt.Sprint(len(candidatesOf(t, s, "1.39", "resources=VGPU:1")))
}

func hasStrategy(t *testing.T, release Release) string {
	if configured(t, Config{Release: release, GenerationStrategy: StrategyBreadthFirst}) == nil {
		return "-"
	}
	return "yes"
}

// candidatesOfWideTree counts the candidates that fit into the capacity, and not into what is free.
func candidatesOfWideTree(t *testing.T, release Release) string {
	s := configured(t, Config{Release: release, OptimizeForWideProviderTrees: true})
	if s == nil {
		return "-"
	}
	claim := Claim{Consumer: con, Project: "p", User: "u", Type: "INSTANCE"}
	for name, used := range map[string]int{"cn0": 2, "cn1": 4} {
		claim.Allocations = append(claim.Allocations, Allocation{Provider: uuidOf(t, s, name), Class: "VGPU", Used: used})
	}
	must(t, s.Claim(claim))
	return fmt.Sprint(len(candidatesOf(t, s, "1.39", "resources1=VGPU:2&resources2=VGPU:1&group_policy=none")))
}

func lowerOverfullUse(t *testing.T, release Release) string {
	s := configured(t, Config{Release: release})
	provider := uuidOf(t, s, "cn0")
	write := func(used int, generation string) int {
		return send(t, s, "1.39", "PUT", "/allocations/"+con, fmt.Sprintf(`{"allocations": {"%s": {"resources": {"VGPU": %d}}},
			"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE", "consumer_generation": %s}`, provider, used, generation)).status
	}
	if got := write(4, "null"); got != http.StatusNoContent {
		t.Fatalf("the first write: %d", got)
	}
	must(t, s.SetInventory(provider, map[string]Inventory{"VGPU": {Total: 2}}))
	got := write(3, "1")
	if got == http.StatusNoContent {
		if more := write(4, "2"); more != http.StatusConflict {
			t.Errorf("%s: a write that raises the use: %d", release, more)
		}
	}
	return fmt.Sprint(got)
}

// allowedRoles asks which roles a policy does not refuse.
func allowedRoles(method, path string) func(*testing.T, Release) string {
	return func(t *testing.T, release Release) string {
		s := newServer(t, Config{Release: release})
		var allowed []string
		for _, role := range []string{"admin", "service", "manager", "member", "reader"} {
			if send(t, s, "1.39", method, path, `{}`, "X-Auth-Token", "u:p", "X-Roles", role).status != http.StatusForbidden {
				allowed = append(allowed, role)
			}
		}
		return strings.Join(allowed, ",")
	}
}

func emptyObjectText(t *testing.T, release Release) string {
	got := send(t, newServer(t, Config{Release: release}), "1.28", "POST", "/allocations", `{}`)
	text, _, _ := strings.Cut(fmt.Sprint(got.at(t, "errors", "0", "detail")), "  Failed")
	return text[strings.Index(text, "{}"):]
}

func schemaText(t *testing.T, release Release) string {
	got := send(t, seeded(t, Config{Release: release}), "1.39", "PUT", "/resource_providers/"+rp1+"/inventories/VCPU", `{"resource_provider_generation": 1, "total": 0}`)
	_, text, _ := strings.Cut(fmt.Sprint(got.at(t, "errors", "0", "detail")), "schema['properties']['total']:     ")
	text, _, _ = strings.Cut(text, "  On")
	return text
}

func trailingCommaText(t *testing.T, release Release) string {
	got := send(t, newServer(t, Config{Release: release}), "1.39", "POST", "/allocations", `{"a": 1,}`)
	_, text, _ := strings.Cut(fmt.Sprint(got.at(t, "errors", "0", "detail")), "Malformed JSON: ")
	text, _, _ = strings.Cut(text, ": line")
	return text
}

func countTraits(t *testing.T, release Release) string {
	list, _ := send(t, newServer(t, Config{Release: release}), "1.39", "GET", "/traits", "").at(t, "traits").([]any)
	return fmt.Sprint(len(list))
}

func TestASeriesIsItsLastVersion(t *testing.T) {
	t.Parallel()
	for series, want := range map[Release]Release{
		"": "16.0.0", "zed": "8.0.0", "2023.1": "9.0.0", "2023.2": "10.0.1", "2024.1": "11.0.1", "2024.2": "12.0.2",
		"2025.1": "13.0.0", "2025.2": "14.0.0", "2026.1": "15.0.0", "2026.2": "16.0.0", "12.0.1": "12.0.1",
	} {
		if got := (Config{Release: series}).WithDefaults().Release; got != want {
			t.Errorf("%q: got %s, want %s", series, got, want)
		}
	}
	for _, unknown := range []Release{"queens", "2027.1", "16", "12.0.3", "Zed", "v8.0.0"} {
		_, err := New(Config{Release: unknown})
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "zed 8.0.0, 2023.1 9.0.0") || !strings.Contains(err.Error(), "2026.2 16.0.0") {
			t.Errorf("%q: got error %v, want the list of releases", unknown, err)
		}
	}
}

func TestPolicyOfARelease(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cfg  Config
		want []int // an admin reshapes, a service reshapes, an admin of the system reads
	}{
		{Config{}, []int{403, 400, 403}},
		{Config{Release: "2024.1"}, []int{400, 400, 200}},
		{Config{Release: "2024.1", Policy: PolicySecure}, []int{403, 400, 403}},
	} {
		s := newServer(t, tt.cfg)
		got := []int{
			send(t, s, "1.39", "POST", "/reshaper", `{}`).status,
			send(t, s, "1.39", "POST", "/reshaper", `{}`, "X-Roles", "service").status,
			send(t, s, "1.39", "GET", "/resource_providers", "", "OpenStack-System-Scope", "all").status,
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.cfg, diff)
		}
	}
	if _, err := New(Config{Release: ReleaseZed, Policy: PolicySecure}); !errors.Is(err, ErrConfig) {
		t.Errorf("the new defaults of Zed: got error %v, want ErrConfig", err)
	}
}

const (
	beginReleases = "<!-- releases: generated by: GOCYBORG_UPDATE=1 go test ./placementsim -run TestTableOfReleases -->\n"
	endReleases   = "<!-- end of the releases -->\n"
)

// Not parallel: it may rewrite the file of TestAPIDocument.
func TestTableOfReleases(t *testing.T) {
	var b strings.Builder
	b.WriteString(beginReleases + "\n")
	b.WriteString("| version | series | options of the generation of candidates | less beyond the capacity | roles | policy | texts | standard traits |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|\n")
	for _, r := range releases() {
		options := []string{"max_allocation_candidates", "allocation_candidates_generation_strategy", "optimize_for_wide_provider_trees"}
		options = options[:map[candidateOptions]int{noOptions: 0, withMaximum: 2, withTrees: 3}[r.options]]
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s | `%s` | jsonschema 4.%d, Python 3.%d | os-traits %s: %d |\n", r.version, r.series, quoted(options),
			map[overfullWrites]string{refused: "409", accepted: "204"}[r.overfull], quoted(r.operators), r.policy,
			r.jsonschema, r.python, r.osTraits, len(standardTraits(r.osTraits)))
	}
	b.WriteString("\n" + endReleases)
	checkGenerated(t, "../docs/placement-api.md", beginReleases, endReleases, b.String())
}

// quoted are names in a cell of a table.
func quoted(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
