package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

const keptGuest = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"

func TestServeContinuesFromItsStateFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state")
	first := start(t, "serve", "--state", file, "--seed", "7", "--manual-clock", "--clock-start", "2026-01-01T00:00:00Z")
	put(t, "PUT", first.env["CYSIM_URL"]+"/_sim/guests/"+keptGuest, `{"host": "cn0"}`)
	put(t, "POST", first.env["CYSIM_URL"]+"/_sim/clock", `{"advance": "90s"}`)
	before := put(t, "GET", first.env["CYSIM_URL"]+"/_sim/state", "")
	if status := first.stop(); status != 0 {
		t.Fatalf("status %d: %s", status, first.stderr)
	}
	second := start(t, "serve", "--state", file)
	if diff := compareStates(t, before, put(t, "GET", second.env["CYSIM_URL"]+"/_sim/state", "")); len(diff) > 0 {
		t.Errorf("the second process has another state: %v", diff)
	}
	if seed := model(t, second)["seed"]; seed != 7.0 {
		t.Errorf("seed: got %v, want the file's", seed)
	}
	if clock := put(t, "GET", second.env["CYSIM_URL"]+"/_sim/clock", ""); !strings.Contains(clock, "2026-01-01T00:01:30Z") {
		t.Errorf("the clock does not go on: %s", clock)
	}
	synctest.Test(t, func(t *testing.T) {
		if status, _, text := cysim(t, "serve", "--state", file); status != 1 && status != 2 || !strings.Contains(text, "another process has it open") {
			t.Errorf("a second process: %d %s", status, text)
		}
	})
	second.stop()
	for _, flags := range [][]string{{"--seed", "8"}, {"--region", "Elsewhere"}, {"--cyborg-release", "zed"}} {
		status, _, text := cysim(t, append([]string{"serve", "--state", file}, flags...)...)
		if status != command.StatusBadInput || !strings.Contains(text, "another model") {
			t.Errorf("%v: %d %s, want status 2", flags, status, text)
		}
	}
	third := start(t, "serve", "--state", file, "--seed", "7")
	third.stop()
}

func compareStates(t *testing.T, before, after string) []sim.Difference {
	t.Helper()
	found, err := simcloud.State(before).Diff(simcloud.State(after))
	must(t, err)
	return slices.DeleteFunc(found, func(d sim.Difference) bool {
		return regexp.MustCompile(`\.ids\.|\.sequences\[|driver_reports|^identity\.`).MatchString(d.Path) // agents that start send requests
	})
}

func TestStatesAreShownAndCompared(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "state")
	served := start(t, "serve", "--state", file, "--manual-clock")
	state := put(t, "GET", served.env["CYSIM_URL"]+"/_sim/state", "")
	early := writeFile(t, "early.json", state)
	put(t, "PUT", served.env["CYSIM_URL"]+"/_sim/guests/"+keptGuest, `{"host": "cn0"}`)
	put(t, "POST", served.env["CYSIM_URL"]+"/_sim/clock", `{"advance": "1s"}`)
	late := writeFile(t, "late.json", put(t, "GET", served.env["CYSIM_URL"]+"/_sim/state", ""))
	served.stop()

	status, shown, text := cysim(t, "state", "show", file)
	if _, err := simcloud.State(shown).Model(); status != 0 || err != nil {
		t.Errorf("show: %d %v %s", status, err, text)
	}
	if status, lines, _ := cysim(t, "state", "diff", early, late); status != 1 || !strings.Contains(lines, "sim.clock[now].now") {
		t.Errorf("diff with times: %d %s", status, lines)
	}
	if status, lines, text := cysim(t, "state", "diff", "--ignore", "times,tokens", early, file); status != 1 || !strings.HasPrefix(lines, "+ compute.") || !strings.Contains(lines, keptGuest) || !strings.Contains(text, "the states differ: 1 difference") {
		t.Errorf("diff: %d %s %s", status, lines, text)
	}
	_, list, _ := cysim(t, "state", "diff", "-o", "json", "--ignore=times", early, file)
	var found []sim.Difference
	if err := json.Unmarshal([]byte(list), &found); err != nil || len(found) != 1 || found[0].Before != "" {
		t.Errorf("diff as JSON: %s %v", list, err)
	}
	if status, lines, text := cysim(t, "state", "diff", file, file); status != 0 || lines != "" || text != "" {
		t.Errorf("of one state: %d %s %s", status, lines, text)
	}
	again := start(t, "serve", "--from", early)
	if diff := compareStates(t, state, put(t, "GET", again.env["CYSIM_URL"]+"/_sim/state", "")); len(diff) > 0 {
		t.Errorf("serve --from has another state: %v", diff)
	}
}

func TestBadStatesAreBadInput(t *testing.T) {
	t.Parallel()
	dir, letter, nothing := t.TempDir(), writeFile(t, "letter", "Dear aunt, ..."), writeFile(t, "nothing", "")
	for line, want := range map[string]string{
		"state show " + letter:                        "is not a state file",
		"state show " + nothing:                       "EOF",
		"state show " + dir + "/none":                 "no such file",
		"state diff " + letter + " " + letter:         "is not a state file",
		"serve --state " + letter:                     "is not a state file",
		"serve --from " + letter:                      "is not a state file",
		"serve --from " + dir + "/none":               "no such file",
		"serve --from " + letter + " --seed 3":        "remove the flags of the model",
		"serve --state " + dir + "/missing/dir/state": "no such file",
	} {
		status, stdout, text := cysim(t, strings.Fields(line)...)
		if status != command.StatusBadInput || !strings.Contains(text, want) || stdout != "" {
			t.Errorf("%s: %d %q %q, want status 2 and %q", line, status, stdout, text, want)
		}
	}
}
