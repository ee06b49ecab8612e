package importer

import (
	"context"
	"errors"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/simcloud/transfer"
)

// Command makes a state for serve of what a real cloud lists.
type Command struct {
	Cloud        string `xor:"cloud" placeholder:"NAME" help:"Read this cloud of clouds.yaml. Default: OS_CLOUD, or the cloud of OS_AUTH_URL and the other variables."`
	To           string `placeholder:"FILE" help:"Write the state to this file instead of standard output."`
	Listing      string `xor:"listing" placeholder:"FILE" help:"Write the responses of the cloud to this file, unchanged."`
	FromListing  string `xor:"cloud,listing" placeholder:"FILE" help:"Import a file that --listing wrote, without a network."`
	ReplaceNames bool   `help:"Replace the names of hosts, providers and device profiles by host-1, host-2 and so on."`
	ReplaceIDs   bool   `name:"replace-ids" help:"Replace all UUIDs."`
	Seed         uint64 `help:"Seed for the UUIDs of --replace-ids."`
}

// Help implements kong.HelpProvider.
func (*Command) Help() string {
	return "Sends GET requests only, apart from the POST to Keystone for a token. Use an account that can read all of Placement and the " +
		"accelerator requests of all projects. A cloud without Cyborg is imported, too. The state is for cysim serve --from FILE."
}

// maxListing is the longest listing that is read, in bytes.
const maxListing = 1 << 30

// Run implements the command.
func (c *Command) Run(ctx context.Context, p *command.Process) error {
	if err := c.check(); err != nil {
		return err
	}
	p.Doing("reading the cloud")
	listing, err := c.listing(ctx, p)
	if err != nil {
		return err
	}
	p.Doing("making the state of a simulated cloud")
	state, err := c.state(ctx, listing)
	if err != nil {
		return err
	}
	if c.To == "" {
		_, err = p.Stdout.Write(state)
		return err
	}
	return command.WriteFile("--to", c.To, state)
}

// check refuses bad names of files before the first request.
func (c *Command) check() error {
	if c.To != "" && c.To == c.Listing {
		return command.BadInput(errors.New("--to and --listing name the same file"))
	}
	return errors.Join(command.CheckOutput("to", c.To), command.CheckOutput("listing", c.Listing))
}

// listing reads the file, or the cloud into the file.
func (c *Command) listing(ctx context.Context, p *command.Process) (listing transfer.Listing, err error) {
	if c.FromListing != "" {
		return command.ParseFile(ctx, "from-listing", c.FromListing, maxListing, transfer.ParseListing)
	}
	cloud, err := openCloud(ctx, c.Cloud, p.Log)
	if err != nil {
		return listing, err
	}
	data, err := cloud.read(ctx)
	if err == nil && c.Listing != "" {
		err = command.WriteFile("--listing", c.Listing, data)
	}
	if err != nil {
		return listing, err
	}
	return transfer.ParseListing(data)
}

// state is the state of a simulated cloud of the listing.
func (c *Command) state(ctx context.Context, listing transfer.Listing) (state []byte, err error) {
	if c.ReplaceNames || c.ReplaceIDs {
		listing, err = listing.Anonymize(transfer.Anonymization{Names: c.ReplaceNames, IDs: c.ReplaceIDs, Seed: c.Seed})
		if err != nil {
			return nil, err
		}
	}
	cloud, err := transfer.Import(ctx, listing)
	if err != nil {
		return nil, err
	}
	state, err = cloud.Dump()
	return append(state, '\n'), errors.Join(err, cloud.Close())
}
