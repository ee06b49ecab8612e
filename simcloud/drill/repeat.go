package drill

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/gocyborg/gocyborg/fault"
)

// FaultsVariable is the environment variable that makes [Run] repeat one case: its faults as JSON, as
// cysim serve --faults reads them. A failing case prints the whole command.
const FaultsVariable = "GOCYBORG_FAULTS"

// caller is the test that called Run.
type caller struct {
	test, pkg, at string
}

// callerOf finds the test that called the caller of callerOf.
func callerOf(test string) caller {
	c := caller{test: test, pkg: "."}
	pc, file, line, ok := runtime.Caller(2)
	if !ok {
		return c
	}
	c.at = fmt.Sprintf("%s:%d", filepath.Base(file), line)
	name := runtime.FuncForPC(pc).Name() // example.org/m/agent_test.TestAgent.func1
	dir, function := "", name
	if slash := strings.LastIndexByte(name, '/'); slash >= 0 {
		dir, function = name[:slash+1], name[slash+1:]
	}
	pkg, _, _ := strings.Cut(function, ".")
	c.pkg = strings.ReplaceAll(dir, "%2e", ".") + strings.TrimSuffix(pkg, "_test")
	return c
}

// repeat is the command that runs one case again.
func (d *drill) repeat(rules []fault.Rule) string {
	if rules == nil {
		rules = []fault.Rule{}
	}
	faults, err := json.Marshal(rules)
	if err != nil {
		return fmt.Sprintf("the faults have no JSON form: %v\n", err)
	}
	command := []string{FaultsVariable + "=" + quoted(string(faults)), "go test -count=1"}
	if tags := buildTags(); tags != "" {
		command = append(command, "-tags "+tags)
	}
	var parts []string
	for part := range strings.SplitSeq(d.caller.test, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	command = append(command, "-run "+quoted(strings.Join(parts, "/")), d.caller.pkg,
		fmt.Sprintf("# %s, seed %d, model seed %d, commit %s", d.caller.at, d.Seed, d.Model.Seed, commit()))
	return strings.Join(command, " ") + "\n"
}

// quoted is a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func buildTags() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" {
			return s.Value
		}
	}
	return ""
}

// commit returns the commit of the directory of the test.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=12").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
