package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/internal/file"
	"github.com/gocyborg/gocyborg/driver/internal/program"
	"github.com/gocyborg/gocyborg/internal/strictjson"
)

// Config is the configuration of a driver.
type Config struct {
	// Host starts the names of deployables ([DEFAULT] host).
	Host string `json:"host,omitempty"`
	// Policy has the shape of names for the dictionary of Rocky, by default ShapeRockyAgent, and
	// local memory. Its other options have no effect.
	driver.Policy
	// Name is the driver's: "command" if it is empty. A host with several has a name for each.
	Name string `json:"name,omitempty"`
	// Program is the absolute path of the program.
	Program string `json:"program"`
	// Writes lets the agent call the verbs that change the hardware.
	Writes bool `json:"writes,omitempty"`
	// Logger gets what the program writes to its standard error; nil discards it.
	Logger *slog.Logger `json:"-"`
}

// Loader returns a builtin.Load, which makes the driver of a section of the configuration.
// Without writes the program only discovers, even if the section says otherwise: a file must not
// change the hardware by itself.
func Loader(log *slog.Logger, writes bool) func(host string, section json.RawMessage, tree driver.Tree) (driver.Driver, error) {
	return func(host string, section json.RawMessage, tree driver.Tree) (driver.Driver, error) {
		var config Config
		if err := strictjson.Decode(section, &config); err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrConfig, err)
		}
		config.Host, config.Logger, config.Writes = cmp.Or(config.Host, host), log, config.Writes && writes
		return New(config, tree)
	}
}

func (c Config) check() error {
	if err := c.CheckConfig(c.Host); err != nil {
		return err
	}
	if !file.IsName(c.Name) {
		return fmt.Errorf("%w: name %q", driver.ErrConfig, c.Name)
	}
	if err := program.Check(c.Program); err != nil {
		return fmt.Errorf("%w: program: %w", driver.ErrConfig, err)
	}
	return nil
}

// ErrNotLooked is the error of a program that could not look at the hardware (status 3).
var ErrNotLooked = errors.New("the program could not read the hardware")
