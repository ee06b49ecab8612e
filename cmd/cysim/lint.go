package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/requestspec"
)

// lintCommand judges flavors and device profiles before anybody uses them.
type lintCommand struct {
	Flavor         []string `placeholder:"FILE" help:"Judge the flavor in this JSON file (name, vcpus, ram, disk, extra_specs); may be given many times."`
	Profile        []string `placeholder:"FILE" help:"Judge the device profile in this JSON file (name, groups), together with the flavors that name it; may be given many times."`
	JSON           bool     `name:"json" help:"Print the findings, and what --rocky makes, as one JSON object."`
	Rocky          bool     `help:"Print for each flavor that asks for CUSTOM_ACCELERATOR_ classes without a device profile, as the Rocky specification writes it, the equivalent profile and the commands that create it."`
	ShippedClasses bool     `help:"With --rocky, ask for the classes that Cyborg's drivers report, such as FPGA, instead of CUSTOM_ACCELERATOR_FPGA."`
}

// maxLintFile is the longest flavor or profile that is read, in bytes.
const maxLintFile = 1 << 20

// errFindings ends the command with status 1.
var errFindings = errors.New("lint")

// Run implements the command.
func (c *lintCommand) Run(p *process) error {
	if len(c.Flavor)+len(c.Profile) == 0 {
		return badInput(errors.New("lint: give --flavor or --profile, or both"))
	}
	flavors, err := readAll(c.Flavor, "--flavor", requestspec.ParseFlavorFile)
	if err != nil {
		return err
	}
	profiles, err := readAll(c.Profile, "--profile", requestspec.ReadProfile)
	if err != nil {
		return err
	}
	found, err := c.check(flavors, profiles)
	if err != nil {
		return err
	}
	converted, err := c.convertAll(flavors)
	if err != nil {
		return err
	}
	if c.JSON {
		err = writeIndented(p.stdout, report{Findings: found, Rocky: converted})
	} else {
		err = c.print(p.stdout, found, converted)
	}
	if err != nil {
		return err
	}
	return verdict(found)
}

// report is what --json prints.
type report struct {
	Findings []requestspec.Finding `json:"findings"`
	Rocky    []requestspec.Rocky   `json:"rocky,omitempty"`
}

// readAll reads every file; the error is bad input and names flag and file.
func readAll[T any](names []string, flag string, parse func([]byte) (T, error)) ([]T, error) {
	var list []T
	for _, name := range names {
		data, err := readBounded(name, maxLintFile)
		if err != nil {
			return nil, badInput(fmt.Errorf("%s: %w", flag, err))
		}
		parsed, err := parse(data)
		if err != nil {
			return nil, badInput(fmt.Errorf("%s %s: %w", flag, name, err))
		}
		list = append(list, parsed)
	}
	return list, nil
}

// check lints each profile, and each flavor with the profile that it names. A single
// flavor is checked with a single profile even if it does not name it.
func (c *lintCommand) check(flavors []requestspec.Flavor, profiles []requestspec.DeviceProfile) ([]requestspec.Finding, error) {
	found := []requestspec.Finding{}
	if len(flavors) == 1 && len(profiles) == 1 {
		return append(found, requestspec.Lint(&flavors[0], &profiles[0])...), nil
	}
	byName := map[string]*requestspec.DeviceProfile{}
	for i, profile := range profiles {
		if _, twice := byName[profile.Name]; twice {
			return nil, badInput(fmt.Errorf("--profile %s: device profile %q is given twice", c.Profile[i], profile.Name))
		}
		byName[profile.Name] = &profiles[i]
		found = append(found, requestspec.Lint(nil, &profile)...)
	}
	for _, flavor := range flavors {
		rocky, ok, err := c.convert(flavor)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, requestspec.Lint(&rocky.Flavor, &rocky.Profile)...)
			continue
		}
		for _, finding := range requestspec.Lint(&flavor, byName[profileOf(flavor)]) {
			if !slices.Contains(found, finding) { // those of the profile are there already
				found = append(found, finding)
			}
		}
	}
	return found, nil
}

// convert reads a Rocky flavor, if told to.
func (c *lintCommand) convert(flavor requestspec.Flavor) (requestspec.Rocky, bool, error) {
	if !c.Rocky {
		return requestspec.Rocky{}, false, nil
	}
	rocky, ok, err := requestspec.FromRocky(flavor, requestspec.RockyOpts{ShippedClasses: c.ShippedClasses})
	if err != nil {
		return rocky, false, badInput(err)
	}
	return rocky, ok, nil
}

func profileOf(flavor requestspec.Flavor) string {
	name, _ := flavor.DeviceProfile()
	return name
}

// convertAll are the Rocky flavors in today's terms.
func (c *lintCommand) convertAll(flavors []requestspec.Flavor) ([]requestspec.Rocky, error) {
	var list []requestspec.Rocky
	for _, flavor := range flavors {
		rocky, ok, err := c.convert(flavor)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, rocky)
		}
	}
	return list, nil
}

// print writes one finding per line. With --rocky the output is a script for an
// administrator's shell, and the findings are its comments.
func (c *lintCommand) print(w io.Writer, found []requestspec.Finding, converted []requestspec.Rocky) error {
	var text strings.Builder
	comment := ""
	if c.Rocky {
		comment = "# "
	}
	for _, finding := range found {
		fmt.Fprintf(&text, "%s%s\n", comment, finding)
	}
	for _, rocky := range converted {
		for _, warning := range rocky.Warnings {
			fmt.Fprintf(&text, "# warning: flavor %q %q=%q: %s\n", rocky.Flavor.Name, warning.Key, warning.Value, warning.Message)
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

func writeIndented(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// verdict is an error when there is an error among the findings.
func verdict(found []requestspec.Finding) error {
	count := 0
	for _, finding := range found {
		if finding.Severity == requestspec.SeverityError {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d findings are errors", errFindings, count, len(found))
}
