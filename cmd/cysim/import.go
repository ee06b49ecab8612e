package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/simcloud/transfer"
)

// importCommand makes a state for serve of what a real cloud lists.
type importCommand struct {
	OSCloud      string `name:"os-cloud" placeholder:"NAME" help:"Read this cloud of clouds.yaml; default: OS_CLOUD, or the cloud of OS_AUTH_URL and the other variables."`
	Output       string `placeholder:"FILE" help:"Write the state here instead of to standard output."`
	Listing      string `placeholder:"FILE" help:"Keep what was read in this file, as it was read."`
	FromListing  string `placeholder:"FILE" help:"Import what --listing kept, without a network."`
	ReplaceNames bool   `help:"Call hosts, providers, device profiles and the like host-1, host-2 and so on."`
	ReplaceIDs   bool   `name:"replace-ids" help:"Give everything another UUID."`
	Seed         uint64 `help:"Chooses the UUIDs of --replace-ids."`
}

var _ kong.HelpProvider = (*importCommand)(nil)

// Help implements kong.HelpProvider.
func (*importCommand) Help() string {
	return "Sends nothing but GET, beside the POST to Keystone that gets a token. Use an account that may see all of Placement and the " +
		"accelerator requests of all projects; a cloud without Cyborg is imported, too. The state is for cysim serve --from FILE."
}

// maxListing is the longest listing that is read, in bytes.
const maxListing = 1 << 30

// Run implements the command.
func (c *importCommand) Run(ctx context.Context, p *command.Process) error {
	if err := c.check(); err != nil {
		return command.BadInput(fmt.Errorf("import: %w", err))
	}
	l, err := c.listing(ctx, progressTo(p.Stderr))
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if c.Listing != "" {
		data, err := l.JSON()
		if err != nil {
			return err
		}
		if err := command.WriteFile(c.Listing, data); err != nil {
			return command.BadInput(fmt.Errorf("--listing: %w", err))
		}
	}
	data, err := c.state(ctx, l)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	if c.Output == "" {
		_, err = p.Stdout.Write(data)
		return err
	}
	if err := command.WriteFile(c.Output, data); err != nil {
		return command.BadInput(fmt.Errorf("--output: %w", err))
	}
	return nil
}

// check judges the flags before anybody is asked anything.
func (c *importCommand) check() error {
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

// listing reads the cloud, or the file.
func (c *importCommand) listing(ctx context.Context, note func(string, ...any)) (transfer.Listing, error) {
	if c.FromListing != "" {
		l, err := readListing(c.FromListing)
		if err != nil {
			return l, command.BadInput(fmt.Errorf("--from-listing %s: %w", c.FromListing, err))
		}
		return l, nil
	}
	s, err := openSource(ctx, c.OSCloud, note)
	if err != nil {
		return transfer.Listing{}, err
	}
	return s.read(ctx)
}

func readListing(name string) (transfer.Listing, error) {
	data, err := command.ReadFile(name, maxListing)
	if err != nil {
		return transfer.Listing{}, err
	}
	return transfer.ParseListing(data)
}

// state is the whole cloud as serve reads it.
func (c *importCommand) state(ctx context.Context, l transfer.Listing) ([]byte, error) {
	if c.ReplaceNames || c.ReplaceIDs {
		var err error
		l, err = l.Anonymize(transfer.Anonymization{Names: c.ReplaceNames, IDs: c.ReplaceIDs, Seed: c.Seed})
		if err != nil {
			return nil, err
		}
	}
	cloud, err := transfer.Import(ctx, l)
	if err != nil {
		return nil, err
	}
	data, err := cloud.Dump()
	return append(data, '\n'), errors.Join(err, cloud.Close())
}
