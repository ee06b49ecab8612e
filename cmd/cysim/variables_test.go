package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

func TestBadVariablesExit2AndAreNamed(t *testing.T) {
	for _, tt := range []struct{ variable, args, want string }{
		{"CYSIM_SEED=many", "serve", `--seed: CYSIM_SEED: expected a valid 64 bit uint but got "many"`},
		{"CYSIM_OUTPUT=xml", "check http://127.0.0.1:1", `CYSIM_OUTPUT: "xml" is not one of text, json`},
		{"CYSIM_IGNORE=ids,foo", "state diff a b", `CYSIM_IGNORE: "foo" is not one of ids, times, tokens`},
		{"CYSIM_WARMUP=x", "load", "CYSIM_WARMUP: "},
		{"CYSIM_DAEMON=perhaps", "serve", "CYSIM_DAEMON: "},
		{"CYSIM_LISTEN=here", "serve", "missing port in address; flags of the environment: CYSIM_LISTEN"},
		{"CYSIM_CYBORG_RELEASE=moon", "serve", `17.0.0, master, 2027.1); flags of the environment: CYSIM_CYBORG_RELEASE`},
		{"CYSIM_CYBORG_RELEASE=moon", "cyborg --placement-url http://127.0.0.1:1", "flags of the environment: CYSIM_CYBORG_RELEASE"},
		{"CYSIM_PLACEMENT_POLICY=moon", "placement", "flags of the environment: CYSIM_PLACEMENT_POLICY"},
		{"CYSIM_PLACEMENT_URL=x", "unflatten", "CYSIM_PLACEMENT_URL: "},
		{"CYSIM_EVENTS_TO=http://u:hunter2@host", "serve", "CYSIM_EVENTS_TO: the URL of host has a user name or password"},
		{"CYSIM_URL=http://u:hunter2@host", "check", "the URL of host has a user name or password, which would be shown wherever the URL is (from CYSIM_URL)"},
	} {
		t.Run(tt.variable+" "+tt.args, func(t *testing.T) {
			name, value, _ := strings.Cut(tt.variable, "=")
			t.Setenv(name, value)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			stdout := stopper{stop: stop}
			var stderr bytes.Buffer
			status := run(ctx, strings.Fields(tt.args), &stdout, &stderr)
			if text := stderr.String(); status != 2 || !strings.Contains(text, tt.want) || strings.Count(text, "\n") != 1 || strings.Contains(text, "hunter2") {
				t.Errorf("got status %d and %q; want 2 and one line with %q", status, text, tt.want)
			}
		})
	}
}

// The command line overrides a variable, and a variable that is set overrides a model.
func TestVariablesOverrideTheModelButNotTheCommandLine(t *testing.T) {
	t.Setenv("CYSIM_MODEL", writeFile(t, "model.json", `{"region": "Model"}`))
	for _, tt := range []struct {
		region string
		args   []string
		want   string
	}{
		{"", nil, "Model"},
		{"Variable", nil, "Variable"},
		{"Variable", []string{"--region", "Line"}, "Line"},
	} {
		t.Setenv("CYSIM_REGION", tt.region)
		if got := start(t, append([]string{"serve"}, tt.args...)...).env["OS_REGION_NAME"]; got != tt.want {
			t.Errorf("CYSIM_REGION=%s %v: the region is %s, want %s", tt.region, tt.args, got, tt.want)
		}
	}
}

// Every flag has a variable of its own, which no server prints unless it means the same.
func TestEveryFlagHasAVariable(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(new(cli), kong.Name("cysim"), groups(), kong.PostBuild(describeFlags))
	must(t, err)
	for _, node := range parser.Model.Leaves(true) {
		names := make(map[string]string)
		for _, flag := range node.Flags {
			name := command.Variable(flag)
			switch other := names[name]; {
			case flag.Name == "help", flag.Hidden, name == "CYSIM_URL" && flag.Name == "url":
			case !strings.HasPrefix(name, "CYSIM_"), other != "":
				t.Errorf("%s: the variable of --%s is %q, as of --%s", node.Path(), flag.Name, name, other)
			case name == "CYSIM_URL", name == "CYSIM_PID", name == "CYSIM_LOG", name == "CYSIM_ACCELERATOR_URL":
				t.Errorf("%s: a server prints %s, the variable of --%s", node.Path(), name, flag.Name)
			}
			names[name] = flag.Name
		}
	}
}
