package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/internal/terminal"
	"github.com/gocyborg/gocyborg/requestspec"
)

// lintCommand checks flavors and device profiles before they are used.
type lintCommand struct {
	Flavor         []string `placeholder:"FILE" help:"Check the flavor in this JSON file (name, vcpus, ram, disk, extra_specs); may be repeated."`
	Profile        []string `placeholder:"FILE" help:"Check the device profile in this JSON file (name, groups), together with the flavors that name it; may be repeated."`
	Output         string   `short:"o" enum:"text,json" default:"text" help:"Output format: text, one line per finding; json, one object with the findings and the result of --rocky."`
	Rocky          bool     `help:"For each flavor that requests CUSTOM_ACCELERATOR_ classes without a device profile, as in the Rocky specification, print the commands that create an equivalent profile."`
	ShippedClasses bool     `help:"With --rocky, request the classes that Cyborg's drivers report, such as FPGA, instead of CUSTOM_ACCELERATOR_FPGA."`
}

// maxLintFile limits the size of a flavor or profile, in bytes.
const maxLintFile = 1 << 20

// Run implements the command.
func (c *lintCommand) Run(ctx context.Context, p *command.Process) error {
	if len(c.Flavor)+len(c.Profile) == 0 {
		return command.BadInput(errors.New("lint: give --flavor or --profile, or both"))
	}
	flavors, err := readAll(ctx, "flavor", c.Flavor, requestspec.ParseFlavorFile)
	if err != nil {
		return err
	}
	profiles, err := readAll(ctx, "profile", c.Profile, requestspec.ReadProfile)
	if err != nil {
		return err
	}
	rocky, err := c.convert(flavors)
	if err != nil {
		return err
	}
	found, err := c.check(flavors, rocky, profiles)
	if err != nil {
		return err
	}
	converted := slices.DeleteFunc(rocky, func(r *requestspec.Rocky) bool { return r == nil })
	if c.Output == "json" {
		err = command.WriteJSON(p.Stdout, report{Findings: found, Rocky: converted})
	} else {
		err = c.print(p.Stdout, found, converted)
	}
	if err != nil {
		return err
	}
	return failure(found)
}

// report is the output of -o json.
type report struct {
	Findings []requestspec.Finding `json:"findings"`
	Rocky    []*requestspec.Rocky  `json:"rocky,omitempty"`
}

// readAll reads the files of a flag.
func readAll[T any](ctx context.Context, flag string, names []string, parse func([]byte) (T, error)) ([]T, error) {
	var list []T
	for _, name := range names {
		parsed, err := command.ParseFile(ctx, flag, name, maxLintFile, parse)
		if err != nil {
			return nil, err
		}
		list = append(list, parsed)
	}
	return list, nil
}

// check lints each profile, and each flavor with the profile that it names. A single
// flavor is checked with a single profile even if it does not name it.
func (c *lintCommand) check(flavors []requestspec.Flavor, rocky []*requestspec.Rocky, profiles []requestspec.Profile) ([]requestspec.Finding, error) {
	found := []requestspec.Finding{}
	if len(flavors) == 1 && len(profiles) == 1 {
		return append(found, requestspec.Lint(&flavors[0], &profiles[0])...), nil
	}
	byName := map[string]*requestspec.Profile{}
	for i, profile := range profiles {
		if _, twice := byName[profile.Name]; twice {
			return nil, command.BadInput(fmt.Errorf("--profile %s: device profile %q occurs twice", c.Profile[i], profile.Name))
		}
		byName[profile.Name] = &profiles[i]
		found = append(found, requestspec.Lint(nil, &profile)...)
	}
	for i, flavor := range flavors {
		if r := rocky[i]; r != nil {
			found = append(found, requestspec.Lint(&r.Flavor, &r.Profile)...)
			continue
		}
		name, _ := flavor.DeviceProfile()
		for _, finding := range requestspec.Lint(&flavor, byName[name]) {
			if !slices.Contains(found, finding) { // findings about the profile may repeat
				found = append(found, finding)
			}
		}
	}
	return found, nil
}

// convert converts Rocky flavors if --rocky is set. An entry is nil if its flavor is not one.
func (c *lintCommand) convert(flavors []requestspec.Flavor) ([]*requestspec.Rocky, error) {
	list := make([]*requestspec.Rocky, len(flavors))
	for i, flavor := range flavors {
		if !c.Rocky {
			break
		}
		rocky, ok, err := requestspec.FromRocky(flavor, c.ShippedClasses)
		if err != nil {
			return nil, command.BadInput(err)
		}
		if ok {
			list[i] = &rocky
		}
	}
	return list, nil
}

// print writes one finding per line. With --rocky the output is a shell script with the
// findings as comments.
func (c *lintCommand) print(w io.Writer, found []requestspec.Finding, converted []*requestspec.Rocky) error {
	var text strings.Builder
	mark := ""
	if c.Rocky {
		mark = "# "
	}
	comment := func(line string) { text.WriteString(mark + terminal.Line(line) + "\n") } // what the files say is never a command
	for _, finding := range found {
		comment(finding.String())
	}
	for _, rocky := range converted {
		for _, warning := range rocky.Warnings {
			comment(fmt.Sprintf("warning: flavor %q %q=%q: %s", rocky.Flavor.Name, warning.Key, warning.Value, warning.Message))
		}
		commands, err := rocky.Commands()
		if err != nil {
			return err
		}
		text.WriteString(strings.Join(commands, "\n") + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// failure is an error if there is an error among the findings.
func failure(found []requestspec.Finding) error {
	count := 0
	for _, finding := range found {
		if finding.Severity == requestspec.SeverityError {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("lint: %s in %s", plural.Count(count, "error"), plural.Count(len(found), "finding"))
}
