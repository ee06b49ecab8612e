package spawn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"gopkg.in/ini.v1"
)

// ErrConfig is matched by every error about a configuration that cannot be
// used; the text names the option.
var ErrConfig = errors.New("spawn: bad configuration")

// Defaults of Config.
const (
	DefaultARQBindingTimeout = 300 // seconds, as nova-compute
	DefaultUnwindTimeout     = time.Minute
	DefaultMaxAttempts       = 3 // as nova-scheduler
)

// Config holds the options of a flow, named as Nova names them. The zero value
// is the default.
type Config struct {
	// ARQBindingTimeout is how long to wait for the ARQs to be bound, in whole
	// seconds, counted from the end of the bind request. 0 means 300; Nova's
	// [DEFAULT]/arq_binding_timeout.
	ARQBindingTimeout int `json:"arq_binding_timeout,omitempty"`
	// MaxAttempts is how many hosts are tried when a claim is refused because
	// somebody else was faster. 0 means 3; Nova's [scheduler]/max_attempts.
	MaxAttempts int `json:"max_attempts,omitempty"`
	// UnwindTimeout bounds the unwinding, which runs on a context of its own.
	// 0 means one minute. It has no name in Nova and no place in JSON.
	UnwindTimeout time.Duration `json:"-"`
}

// withDefaults fills the zero fields and refuses what makes no sense; the
// error matches ErrConfig.
func (c Config) withDefaults() (Config, error) {
	if c.ARQBindingTimeout == 0 {
		c.ARQBindingTimeout = DefaultARQBindingTimeout
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = DefaultMaxAttempts
	}
	if c.UnwindTimeout == 0 {
		c.UnwindTimeout = DefaultUnwindTimeout
	}
	switch {
	case c.ARQBindingTimeout < 1:
		return c, fmt.Errorf("%w: arq_binding_timeout: %d is below 1 second", ErrConfig, c.ARQBindingTimeout)
	case c.MaxAttempts < 1:
		return c, fmt.Errorf("%w: max_attempts: %d is below 1", ErrConfig, c.MaxAttempts)
	case c.UnwindTimeout < 0:
		return c, fmt.Errorf("%w: unwind timeout: %s is negative", ErrConfig, c.UnwindTimeout)
	}
	return c, nil
}

func (c Config) bindingTimeout() time.Duration {
	return time.Duration(c.ARQBindingTimeout) * time.Second
}

// UnmarshalJSON reads {"arq_binding_timeout": 300, "max_attempts": 3}. Unlike
// in Go, a zero that is written down is refused; so are unknown options. The
// error matches ErrConfig.
func (c *Config) UnmarshalJSON(data []byte) error {
	var options map[string]json.Number
	if err := json.Unmarshal(data, &options); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	fresh := *c
	for name, value := range options {
		if err := fresh.set(name, value.String()); err != nil {
			return err
		}
	}
	*c = fresh
	return nil
}

// ReadNovaConf reads the options of Config from a file in the format of
// nova-cpu.conf or nova.conf, and leaves alone what the file does not set.
// Sections and options of others are passed over. The error names the option
// and matches ErrConfig.
func (c *Config) ReadNovaConf(r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, maxConfSize+1))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if len(data) > maxConfSize {
		return fmt.Errorf("%w: larger than %d bytes", ErrConfig, maxConfSize)
	}
	file, err := ini.LoadSources(ini.LoadOptions{
		IgnoreInlineComment:        true, // oslo.config keeps them as part of the value
		AllowPythonMultilineValues: true,
		SkipUnrecognizableLines:    true,
		AllowShadows:               false,
	}, data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	fresh := *c
	for _, option := range []struct{ section, name string }{{"DEFAULT", "arq_binding_timeout"}, {"scheduler", "max_attempts"}} {
		key, err := file.Section(option.section).GetKey(option.name)
		if err != nil {
			continue // not set
		}
		if err := fresh.set(option.name, key.Value()); err != nil {
			return err
		}
	}
	*c = fresh
	return nil
}

// maxConfSize is far above any nova.conf with all its comments.
const maxConfSize = 4 << 20

func (c *Config) set(name, text string) error {
	value, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf("%w: %s: %q is not a whole number", ErrConfig, name, text)
	}
	if value < 1 {
		return fmt.Errorf("%w: %s: %d is below 1", ErrConfig, name, value)
	}
	switch name {
	case "arq_binding_timeout":
		c.ARQBindingTimeout = value
	case "max_attempts":
		c.MaxAttempts = value
	default:
		return fmt.Errorf("%w: unknown option %q", ErrConfig, name)
	}
	return nil
}
