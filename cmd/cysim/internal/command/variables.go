package command

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Variable is the name of the environment variable of a flag, such as CYSIM_CONTROL_TOKEN of --control-token. A flag of the group
// SERVICE-flags has the name of the service in its variable, which is the same wherever the
// service is served. The result is empty for --help and --version, which are not options, and for
// a hidden flag: Kubernetes sets CYSIM_PORT for a service cysim. CYSIM_LOG is what a daemon
// prints.
func Variable(flag *kong.Flag) string {
	name := flag.Name
	switch {
	case name == "help" || name == "version" || flag.Hidden:
		return ""
	case name == "log":
		name = "log-file"
	}
	if flag.Group != nil {
		service, ok := strings.CutSuffix(flag.Group.Key, "-flags")
		if ok && !strings.HasPrefix(name, service+"-") {
			name = service + "-" + name
		}
	}
	return "CYSIM_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// fromEnvironment is a [kong.ResolverFunc] that returns the value of the variable of a flag that is not on the command
// line, nil if that is empty. An error names the variable. To kong, a resolved flag is one of the command line, which
// therefore overrides a field of a model; a variable of its own (kong.DefaultEnvars) would not.
func fromEnvironment(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	name := Variable(flag)
	text := os.Getenv(name)
	if name == "" || text == "" {
		return nil, nil
	}
	target := reflect.New(flag.Target.Type()).Elem()
	err := flag.Mapper.Decode(&kong.DecodeContext{Value: flag.Value, Scan: kong.Scan().PushTyped(text, kong.FlagValueToken)}, target)
	if err == nil {
		err = checkEnum(flag, target)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// checkEnum refuses values that a flag does not have.
func checkEnum(flag *kong.Flag, value reflect.Value) error {
	if flag.Enum == "" {
		return nil
	}
	if value.Kind() == reflect.Slice {
		for i := range value.Len() {
			if err := checkEnum(flag, value.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	if known := flag.EnumSlice(); !slices.Contains(known, fmt.Sprint(value)) {
		return fmt.Errorf("%q is not one of %s", value, strings.Join(known, ", "))
	}
	return nil
}

// fromVariable matches kong's text about a positional argument, which contains the value and may be a secret.
var fromVariable = regexp.MustCompile(`\(from envar (\w+)=".*"\)`)

// traced is the parsed command line, also one that was refused.
func traced(parsed *kong.Context, err error) *kong.Context {
	if refused := new(kong.ParseError); parsed == nil && errors.As(err, &refused) {
		return refused.Context
	}
	return parsed
}

// withVariables adds the variables that set flags to an error about bad input, which may be about one of them.
func withVariables(err error, parsed *kong.Context) error {
	found := new(statusError)
	if !errors.As(err, &found) || found.status != StatusBadInput || parsed == nil {
		return err
	}
	var names []string
	for _, step := range parsed.Path {
		if step.Resolved && step.Flag != nil && step.Flag.Name != "url" { // whose errors show its value
			names = append(names, Variable(step.Flag))
		}
	}
	const note = "; flags of the environment: "
	if len(names) == 0 || strings.Contains(err.Error(), note) { // a server in the background has added it already
		return err
	}
	return fmt.Errorf("%w%s%s", err, note, strings.Join(names, ", "))
}
