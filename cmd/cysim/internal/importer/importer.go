package importer

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/simcloud/transfer"
)

// Command makes a state for serve of what a real cloud lists.
type Command struct {
	OSCloud      string `name:"os-cloud" placeholder:"NAME" help:"Read this cloud of clouds.yaml. Default: OS_CLOUD, or the cloud of OS_AUTH_URL and the other variables."`
	Output       string `placeholder:"FILE" help:"Write the state to this file instead of standard output."`
	Listing      string `placeholder:"FILE" help:"Write what was read to this file, as it was read."`
	FromListing  string `placeholder:"FILE" help:"Import what --listing wrote, without a network."`
	ReplaceNames bool   `help:"Replace the names of hosts, providers and device profiles by host-1, host-2 and so on."`
	ReplaceIDs   bool   `name:"replace-ids" help:"Replace all UUIDs."`
	Seed         uint64 `help:"Seed for the UUIDs of --replace-ids."`
}

var _ kong.HelpProvider = (*Command)(nil)

// Help implements kong.HelpProvider.
func (*Command) Help() string {
	return "Sends only GET requests, and the POST to Keystone that gets a token. Use an account that may see all of Placement and the " +
		"accelerator requests of all projects. A cloud without Cyborg is imported, too. The state is for cysim serve --from FILE."
}

// maxListing is the longest listing that is read, in bytes.
const maxListing = 1 << 30

// Run implements the command.
func (c *Command) Run(ctx context.Context, p *command.Process) error {
	if err := c.check(); err != nil {
		return command.BadInput(fmt.Errorf("import: %w", err))
	}
	progress := func(format string, args ...any) { fmt.Fprintf(p.Stderr, format+"\n", args...) }
	listing, err := c.listing(ctx, progress)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if c.Listing != "" {
		data, err := listing.JSON()
		if err != nil {
			return err
		}
		if err := command.WriteFile(c.Listing, data); err != nil {
			return command.BadInput(fmt.Errorf("--listing: %w", err))
		}
	}
	state, err := c.state(ctx, listing)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if c.Output == "" {
		_, err = p.Stdout.Write(state)
		return err
	}
	if err := command.WriteFile(c.Output, state); err != nil {
		return command.BadInput(fmt.Errorf("--output: %w", err))
	}
	return nil
}

// check refuses flags that contradict each other before the first request.
func (c *Command) check() error {
	if c.FromListing != "" && (c.OSCloud != "" || c.Listing != "") {
		return errors.New("--from-listing reads no cloud; leave --os-cloud and --listing out")
	}
	if c.Output != "" && c.Output == c.Listing {
		return errors.New("--output and --listing name the same file")
	}
	for _, name := range []string{c.Output, c.Listing} {
		if info, err := os.Lstat(name); name != "" && err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is not a regular file", name)
		}
	}
	return nil
}

// listing reads the cloud or the file.
func (c *Command) listing(ctx context.Context, progress func(string, ...any)) (transfer.Listing, error) {
	if c.FromListing != "" {
		return command.ParseFile("from-listing", c.FromListing, maxListing, transfer.ParseListing)
	}
	cloud, err := openCloud(ctx, c.OSCloud, progress)
	if err != nil {
		return transfer.Listing{}, err
	}
	return cloud.read(ctx)
}

// state is the state of a simulated cloud of the listing.
func (c *Command) state(ctx context.Context, listing transfer.Listing) ([]byte, error) {
	if c.ReplaceNames || c.ReplaceIDs {
		var err error
		listing, err = listing.Anonymize(transfer.Anonymization{Names: c.ReplaceNames, IDs: c.ReplaceIDs, Seed: c.Seed})
		if err != nil {
			return nil, err
		}
	}
	cloud, err := transfer.Import(ctx, listing)
	if err != nil {
		return nil, err
	}
	state, err := cloud.Dump()
	return append(state, '\n'), errors.Join(err, cloud.Close())
}
