package control

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/internal/spelling"
	"github.com/gocyborg/gocyborg/requestspec"
	"github.com/gocyborg/gocyborg/simcloud"
)

// Explain prints for each host why it is not among the allocation candidates.
type Explain struct {
	Server
	Query   string `arg:"" optional:"" help:"Query of GET /allocation_candidates, such as \"resources=PGPU:1&required=CUSTOM_GPU\"."`
	Flavor  string `placeholder:"FLAVOR" help:"Explain the query that Nova sends for this flavor and its device profile instead: the name of a flavor of the cloud, or a file as cysim lint reads it."`
	Profile string `placeholder:"FILE" help:"File with the device profile of --flavor, as cysim lint reads it. Default: the profile of the cloud."`
	Output  string `short:"o" enum:"text,json" default:"text" help:"Output format: text, one line per host and reason; json, the explanation of GET /_sim/explain."`
}

// explanation is an answer of GET /_sim/explain.
type explanation struct {
	Hosts []struct {
		Name      string   `json:"name"`
		Candidate bool     `json:"candidate"`
		Words     []string `json:"words"`
	} `json:"hosts"`
}

// Run implements the command.
func (c *Explain) Run(ctx context.Context, p *command.Process) error {
	if (c.Query == "") == (c.Flavor == "") {
		return command.BadInput(errors.New("explain: give a query or --flavor"))
	}
	if c.Profile != "" && c.Flavor == "" {
		return command.BadInput(errors.New("explain: --profile needs --flavor"))
	}
	if c.Flavor != "" {
		query, err := c.flavorQuery(ctx)
		if err != nil {
			return fmt.Errorf("explain: %w", err)
		}
		c.Query = query
	}
	if c.Output == "json" {
		var all map[string]any
		if err := c.Show(ctx, "explain?"+c.Query, "explanation", &all); err != nil {
			return fmt.Errorf("explain: %w", err)
		}
		return command.WriteJSON(p.Stdout, all)
	}
	var found explanation
	if err := c.Show(ctx, "explain?"+c.Query, "explanation", &found); err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	var lines []string
	for _, host := range found.Hosts {
		if host.Candidate {
			lines = append(lines, "host "+host.Name+": candidate")
		}
		lines = append(lines, host.Words...)
	}
	if c.Flavor != "" {
		if plain, err := url.QueryUnescape(c.Query); err == nil {
			lines = append([]string{"query: " + plain}, lines...)
		}
	}
	return command.WriteList(p.Stdout, c.Output, lines, func(line string) string { return line })
}

// flavorQuery is the query that Nova sends for the flavor.
func (c *Explain) flavorQuery(ctx context.Context) (string, error) {
	cyborg, model, err := c.cyborg(ctx)
	if err != nil {
		return "", err
	}
	flavor, err := c.flavor(ctx, model)
	if err != nil {
		return "", err
	}
	var profile *requestspec.Profile
	switch name := flavor.ExtraSpecs[requestspec.DeviceProfileKey]; {
	case c.Profile != "":
		found, err := command.ParseFile(ctx, "profile", c.Profile, maxDefinition, requestspec.ReadProfile)
		if err != nil {
			return "", err
		}
		profile = &found
	case name != "":
		found, err := cyborg.GetDeviceProfileByName(ctx, name)
		if err != nil {
			return "", err
		}
		profile = &requestspec.Profile{Name: found.Name, Groups: found.Groups}
	}
	spec, err := requestspec.New(flavor, profile, requestspec.Options{})
	if err != nil {
		return "", command.BadInput(err)
	}
	return spec.Query(), nil
}

// maxDefinition limits the size of a file with a flavor or a profile, in bytes.
const maxDefinition = 1 << 20

// flavor reads the flavor from its file, or finds it in the cloud.
func (c *Explain) flavor(ctx context.Context, model simcloud.Model) (requestspec.Flavor, error) {
	if _, err := os.Stat(c.Flavor); err == nil {
		return command.ParseFile(ctx, "flavor", c.Flavor, maxDefinition, requestspec.ParseFlavorFile)
	}
	at := slices.IndexFunc(model.Flavors, func(f simcloud.Flavor) bool { return f.Name == c.Flavor })
	if at < 0 {
		return requestspec.Flavor{}, command.BadInput(fmt.Errorf("the model of the cloud has no flavor %q%s", c.Flavor, flavorMeant(c.Flavor, model.Flavors)))
	}
	f := model.Flavors[at]
	return requestspec.Flavor{
		Name: f.Name, VCPUs: f.VCPUs, MemoryMB: f.MemoryMB, RootGB: f.RootGB, EphemeralGB: f.EphemeralGB, SwapMB: f.SwapMB, ExtraSpecs: f.ExtraSpecs,
	}, nil
}

// flavorMeant names the flavors for an unknown one.
func flavorMeant(name string, flavors []simcloud.Flavor) string {
	var names []string
	for _, f := range flavors {
		names = append(names, f.Name)
	}
	if meant := spelling.Nearest(name, names); meant != "" {
		return ", did you mean " + meant + "?"
	}
	return "; it has " + strings.Join(names, ", ")
}
