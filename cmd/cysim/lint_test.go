package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
)

const rockyFlavors = "../../examples/profiles/flavors/"

// lint runs the command on files with the given texts; FLAVOR, PROFILE, ... in args are replaced
// by their names.
func lint(t *testing.T, args string, files map[string]string) (status int, stdout, stderr string) {
	t.Helper()
	for name, text := range files {
		args = strings.ReplaceAll(args, name, writeFile(t, name+".json", text))
	}
	return cysim(t, strings.Fields("lint "+args)...)
}

func TestLintReportsFindings(t *testing.T) {
	t.Parallel()
	const (
		flavor  = `{"name": "f", "vcpus": 1, "extra_specs": {"accel:device_profile": "p"}}`
		profile = `{"name": "p", "groups": [{"resources:PGPU": "1"}]}`
	)
	tests := []struct {
		name, args string
		files      map[string]string
		status     int
		stdout     []string // parts; none: nothing is printed
		stderr     string
	}{
		{"nothing to look at", "", nil, 2, nil, "give --flavor or --profile"},
		{"all is well", "--flavor FLAVOR --profile PROFILE", map[string]string{"FLAVOR": flavor, "PROFILE": profile}, 0, nil, ""},
		{"warnings are no failure", "--flavor FLAVOR", map[string]string{"FLAVOR": `{"name": "f", "extra_specs": {"accel:device-profile": "p"}}`}, 0,
			[]string{`warning: flavor "f" "accel:device-profile"="p": this key is ignored; use accel:device_profile`}, ""},
		{"errors are", "--profile PROFILE", map[string]string{"PROFILE": `{"name": "p", "groups": [{"trait:CUSTOM_A": "required"}]}`}, 1,
			[]string{`error: device profile "p" group 0: the group has no resources; Placement refuses the query; add resources:<class>`}, "lint: 1 error in 1 finding"},
		{"another profile", "--flavor FLAVOR --profile PROFILE", map[string]string{"FLAVOR": flavor, "PROFILE": strings.Replace(profile, `"p"`, `"q"`, 1)}, 1,
			[]string{`the device profile given is "q"`}, "1 error in 1 finding"},
		{"several and one is named by the flavor", "--flavor FLAVOR --profile PROFILE --profile OTHER",
			map[string]string{"FLAVOR": flavor, "PROFILE": profile, "OTHER": strings.Replace(profile, `"p"`, `"q"`, 1)}, 0, nil, ""},
		{"the same profile twice", "--profile PROFILE --profile OTHER", map[string]string{"PROFILE": profile, "OTHER": profile}, 2, nil, `"p" occurs twice`},
		{"flavor is a profile", "--flavor FLAVOR", map[string]string{"FLAVOR": profile}, 2, nil, `unknown field "groups"`},
		{"profile is no JSON", "--profile PROFILE", map[string]string{"PROFILE": "{"}, 2, nil, "--profile"},
		{"no such file", "--flavor /none/such.json", nil, 2, nil, "/none/such.json"},
		{"a directory", "--flavor .", nil, 2, nil, "--flavor"},
		{"too long", "--flavor FLAVOR", map[string]string{"FLAVOR": strings.Repeat(" ", maxLintFile+1)}, 2, nil, "more than 1048576 bytes"},
		{"a Rocky flavor", "--flavor " + rockyFlavors + "afaas-function-id.json --rocky", nil, 0,
			[]string{"openstack accelerator device profile create rocky-afaas-function-id-", `"accel:function_id":"d8424dc4-a4a3-c413-f89e-433683f9040b"`,
				"\nopenstack flavor set afaas-function-id --property accel:device_profile=rocky-", "# warning: device profile"}, ""},
		{"with shipped classes", "--flavor " + rockyFlavors + "daas-fpga.json --rocky --shipped-classes", nil, 0, []string{`"resources:FPGA":"1"`}, ""},
		{"a bad Rocky flavor", "--flavor FLAVOR --rocky", map[string]string{"FLAVOR": `{"name": "f", "extra_specs": {"function:gzip": "required"}}`}, 2, nil,
			`extra spec "function:gzip"="required"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := lint(t, tt.args, tt.files)
			if status != tt.status || !strings.Contains(stderr, tt.stderr) || (stderr == "") != (tt.stderr == "") {
				t.Errorf("status %d and %q, want %d and %q", status, stderr, tt.status, tt.stderr)
			}
			for _, part := range tt.stdout {
				if !strings.Contains(stdout, part) {
					t.Errorf("output %q, want %q in it", stdout, part)
				}
			}
			if len(tt.stdout) == 0 && stdout != "" {
				t.Errorf("output %q, want none", stdout)
			}
		})
	}
}

// The script of --rocky runs only commands of openstack, with any flavor.
func TestLintPrintsNoCommandOfTheFlavor(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{
		`resource:X\ntouch pwned #`:        "1",
		`Resources :x\ntouch pwned #`:      "1",
		`resources_:VGPU\ntouch pwned #`:   "1",
		`traits:CUSTOM_GPU\ntouch pwned #`: "required",
		`trait1:CUSTOM_F\ntouch pwned #`:   "required",
		`trait_:CUSTOM_F\rtouch pwned #`:   "required",
		`trait`:                            `CUSTOM_F\ntouch pwned #=required`, // a warning of the conversion
	} {
		_, stdout, _ := lint(t, "--rocky --flavor FLAVOR", map[string]string{
			"FLAVOR": `{"name": "f", "extra_specs": {"resources:CUSTOM_ACCELERATOR_GPU": "1", "` + key + `": "` + value + `"}}`,
		})
		if !strings.Contains(stdout, "touch pwned") {
			t.Errorf("%s: nothing is said of it: %s", key, stdout)
		}
		for line := range strings.Lines(stdout) {
			if !strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "openstack ") {
				t.Errorf("%s: %q is a command", key, line)
			}
		}
	}
}

func TestLintPrintsJSONThatReadsBack(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := lint(t, "-o json --rocky --flavor "+rockyFlavors+"several-groups.json", nil)
	var got report
	if err := json.Unmarshal([]byte(stdout), &got); status != 0 || err != nil {
		t.Fatalf("status %d, %v, %s: %s", status, err, stderr, stdout)
	}
	if len(got.Rocky) != 1 || len(got.Rocky[0].Profile.Groups) != 3 || len(got.Findings) == 0 || got.Findings[0].Severity != requestspec.SeverityWarning {
		t.Errorf("got %+v", got)
	}
	if _, stdout, _ := lint(t, "-o json --profile PROFILE", map[string]string{"PROFILE": `{"name": "p", "groups": [{"resources:PGPU": "1"}]}`}); stdout != "{\n  \"findings\": []\n}\n" {
		t.Errorf("without findings: %q", stdout)
	}
}
