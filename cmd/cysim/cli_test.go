package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBadFlagsAndFilesExit2WithOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	foreign := write("clouds.yaml", "clouds: {prod: {}}\n")
	mixed := write("mixed.json", `{"hosts": [{"name": "cn0", "drivers": {"fake": true, "nvidia": {}}, "sysfs": {"devices": [
		{"address": "0000:3b:00.0", "vendor": "10de", "product": "15f8", "class": "0302"}]}}]}`)
	tests := []struct {
		args string
		want string // part of the line
	}{
		{"paint", "unexpected argument paint"},
		{"serve --nonsense", "unknown flag --nonsense"},
		{"serve --seed many", "--seed"},
		{"serve --listen here", "--listen: address here: missing port"},
		{"serve --listen 127.0.0.1:99999", "--listen: address 99999: invalid port"},
		{"serve --listen 127.0.0.1:x", "--listen: lookup tcp/x"},
		{"serve --state=", "--state: the text is empty"},
		{"cyborg --placement-url http://127.0.0.1:1 --state=", "--state: the text is empty"},
		{"serve --catalog compute=nova", "compute: \"nova\" is not an absolute http or https URL"},
		{"serve --events-to agent", `--events-to: "agent" is not an absolute http or https URL`},
		{"serve --events-to http://u:hunter2@host/x", "--events-to: the URL of host has a user name or password"},
		{"serve --events-to http://u:hunter2/@host/x", `--events-to: "***@host/x" is not an absolute http`},
		{"serve --catalog compute=http://u:hunter2@host/v2.1", "compute: the URL of host has a user name or password"},
		{"serve --catalog compute=http://host/v2.1?token=hunter2", "compute: the URL http://host/v2.1?*** has a query"},
		{"cyborg --placement-url http://u:hunter2@host", "--placement-url: the URL of host has a user name or password"},
		{"check http://u:hunter2@host", "<url>: the URL of host has a user name or password"},
		{"ready http://host?token=hunter2", "<url>: the URL http://host?*** has a query"},
		{"serve --model " + dir + "/none.json", "--model: open " + dir + "/none.json"},
		{"serve --model " + dir, "--model"},
		{"serve --model " + write("garbage.json", "{"), "--model " + dir + "/garbage.json"},
		{"serve --model " + write("unknown.json", `{"colour": "red"}`), "colour"},
		{"serve --cyborg-release moon", `release "moon", did you mean master? (known: zed, 9.0.0, 10.0.0, 2023.1, 10.1.0, `},
		{"serve --cyborg-bind-delay soon", "--cyborg-bind-delay"},
		{"serve --placement-policy moon", "moon"},
		{"serve --clouds-yaml " + foreign, "was not written by cysim"},
		{"serve --clouds-yaml " + dir, "not a regular file"},
		{"serve --clouds-yaml " + dir + "/none/clouds.yaml", "no such file or directory"},
		{"placement --policy moon", "moon"},
		{"placement --auth keystone", "--auth must be one of"},
		{"cyborg", "--placement-url"},
		{"unflatten", "--placement-url"},
		{"unflatten --placement-url placement", `--placement-url: "placement" is not an absolute http`},
		{"serve --placement-mode round", "placement_mode"},
		{"serve --faults " + dir + "/none.json", "--faults: open " + dir + "/none.json"},
		{"serve --faults " + write("faults.json", `[{"operation": "accelerator.arq.paint", "action": "drop"}]`), `faults.json: rule 0: fault: bad rule: unknown operation "accelerator.arq.paint"`},
		{"serve --faults " + write("actions.json", `[{"operation": "accelerator.arq.bind", "action": "reorder"}]`), "accelerator.arq.bind cannot reorder"},
		{"serve --event-form stein", `event_form "stein" (known: shipped, train, ussuri)`},
		{"serve --mdev-creation libvirt", `mdev_creation "libvirt" (known: agent, nova)`},
		{"serve --token-lifetime=-1s", "token lifetime"},
		{"serve --placement-mode flat --model " + mixed, "on a flat host all devices need the same"},
		{"serve --faults " + dir + "/none.json", "--faults: open"},
		{"serve --faults " + write("null.json", "null"), "null is not a list of rules"},
		{"serve --faults " + write("unknown-operation.json", `[{"operation": "a.b", "action": "drop"}]`), `unknown operation "a.b"`},
		{"placement --faults " + write("cyborgs.json", `[{"operation": "accelerator.arq.bind", "action": "drop"}]`), "unknown operation"},
		{"cyborg --placement-url http://127.0.0.1:1 --faults " + write("placements.json", `[{"operation": "placement.allocations.put", "action": "drop"}]`), "unknown operation"},
		{"serve --clock-start 2026-01-01T00:00:00Z", "--manual-clock"},
		{"serve --manual-clock --clock-start noon", "--clock-start"},
		{"check there", `<url>: "there" is not an absolute http`},
		{"check", "CYSIM_URL is not set; cysim list shows the running servers"},
		{"load --spawns 0", "--spawns 0"},
		{"load --spawns 5 --concurrency 6", "--concurrency 6"},
		{"load --cloud nowhere", "--cloud nowhere"},
		{"serve --token-lifetime soon", "--token-lifetime"},
		{"serve --state " + dir + "/both-ca.pem --tls-self-signed --clouds-yaml " + dir + "/both.yaml", "--tls-self-signed " + dir + "/both-ca.pem: the file there was not written by cysim"},
		{"serve --state " + dir + "/same --clouds-yaml " + dir + "/same", "--clouds-yaml " + dir + "/same: the file there was not written by cysim"},
		{"cyborg --placement-url placement", `--placement-url: "placement" is not an absolute http`},
		{"cyborg --placement-url http://127.0.0.1:1 --compute-url ftp://x", `--compute-url: "ftp://x" is not an absolute http`},
		{"cyborg --placement-url http://127.0.0.1:1 --release moon", `release "moon"`},
		{"cyborg --placement-url http://127.0.0.1:1 --model " + dir + "/none.json", "--model"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			stdout := stopper{stop: stop}
			var stderr bytes.Buffer
			status := run(ctx, strings.Fields(tt.args), &stdout, &stderr)
			text := stderr.String()
			if status != 2 || !strings.Contains(text, tt.want) || strings.Count(text, "\n") != 1 || strings.Contains(text, "hunter2") {
				t.Errorf("got status %d and %q; want 2 and one line with %q", status, text, tt.want)
			}
			if stdout.text.Len() > 0 {
				t.Errorf("standard output: got %q, want nothing", stdout.text.String())
			}
		})
	}
	if data, err := os.ReadFile(foreign); err != nil || string(data) != "clouds: {prod: {}}\n" {
		t.Errorf("the refused clouds file changed: %q, error %v", data, err)
	}
}

// stopper ends a command that serves although it should have failed.
type stopper struct {
	text bytes.Buffer
	stop func()
}

// Write implements io.Writer.
func (s *stopper) Write(p []byte) (int, error) {
	s.stop()
	return s.text.Write(p)
}

func TestAnAddressInUseEndsWithStatus1(t *testing.T) {
	t.Parallel()
	first := start(t, "placement")
	address := strings.TrimPrefix(first.env["CYSIM_PLACEMENT_URL"], "http://")
	status, stdout, stderr := cysim(t, "placement", "--listen", address)
	if status != 1 || !strings.Contains(stderr, "address already in use") || stdout != "" {
		t.Errorf("got status %d, %q, standard output %q; want 1, the cause, and nothing", status, stderr, stdout)
	}
}

func TestHelpOfCommands(t *testing.T) {
	t.Parallel()
	tests := []struct{ args, want string }{
		{"--help", "Serve Placement alone"},
		{"serve --help", "--cyborg-release"},
		{"placement --help", "--cors-origin"},
		{"cyborg --help", "--placement-url"},
		{"version --help", "Print the version"},
		{"discover --help", "--nova-conf"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			status, stdout, stderr := cysim(t, strings.Fields(tt.args)...)
			if status != 0 || !strings.Contains(stdout, tt.want) || stderr != "" {
				t.Errorf("got status %d, %q, errors %q; want 0 and %q", status, stdout, stderr, tt.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if status, text, _ := cysim(t, "version"); status != 0 || !strings.HasPrefix(text, "cysim ") || strings.Count(text, "\n") != 1 {
		t.Errorf("got status %d and %q", status, text)
	}
}

// TestABadModelPrintsAtMostTenLines shows one problem in each line, and what they have in common once.
func TestABadModelPrintsAtMostTenLines(t *testing.T) {
	t.Parallel()
	hosts := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"name": "cn%d", "vcpus": -1}`, i)
		}
		return `{"hosts": [` + strings.Join(list, ", ") + "]}"
	}
	tests := []struct {
		name, model string
		want        []string // lines; FILE is the file
	}{
		{"one", hosts(1), []string{"FILE: simcloud: bad model: hosts[0].vcpus: -1 is negative"}},
		{"two", hosts(2), []string{"FILE: simcloud: bad model:", "hosts[0].vcpus: -1 is negative", "hosts[1].vcpus: -1 is negative"}},
		{"nine", hosts(9), append([]string{"FILE: simcloud: bad model:"}, negative(9)...)},
		{"many", hosts(60), append(append([]string{"FILE: simcloud: bad model:"}, negative(8)...), "... and 52 more")},
		{"a device", `{"hosts": [{"name": "cn0", "devices": [{"type": "GPU"}]}]}`, []string{
			"FILE: simcloud: bad model: hosts[0].devices[0]:", "no vendor", "no control path",
		}},
		{"users and a host", `{"token_lifetime": "-1s", "hosts": [{"name": "cn0", "vcpus": -1}]}`, []string{
			"FILE: simcloud: bad model:", "hosts[0].vcpus: -1 is negative", "users: keystone: bad configuration: token lifetime -1s is negative",
		}},
	}
	for _, tt := range tests {
		for _, args := range [][]string{{"model", "check"}, {"serve", "--model"}} {
			t.Run(tt.name+" "+args[0], func(t *testing.T) {
				t.Parallel()
				file := writeFile(t, "model.json", tt.model)
				status, out, log := cysim(t, append(args, file)...)
				got := strings.ReplaceAll(strings.TrimPrefix(log, "cysim: "), file+":", "FILE:")
				got = strings.TrimPrefix(got, "--model ")
				if diff := cmp.Diff(strings.Join(tt.want, "\n  ")+"\n", got); diff != "" || status != 2 || out != "" {
					t.Errorf("status %d, output %q (-want +got):\n%s", status, out, diff)
				}
			})
		}
	}
}

// negative are the problems of the first hosts.
func negative(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("hosts[%d].vcpus: -1 is negative", i)
	}
	return list
}
