package fakecyborg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// ErrConfig is matched by every error about a configuration that cannot be used.
var ErrConfig = errors.New("fakecyborg: bad configuration")

// The releases whose API a Server can speak.
const (
	// Release20262 is the present API, microversions 2.0 to 2.3, and the
	// default.
	Release20262 = "2026.2"
	// ReleaseZed is Cyborg 9: microversions 2.0 to 2.2, no service token, no
	// attributes, no enabling and disabling of devices.
	ReleaseZed = "zed"
)

// defaultBindTimeout is upstream's [DEFAULT] bind_timeout.
const defaultBindTimeout = 60 * time.Second

// Config says which Cyborg a Server is. The zero value is the present release
// with its defects repaired, binding inline, as upstream does for everything
// but FPGA programming. In JSON the durations are texts such as "1.5s".
type Config struct {
	// Release is one of the Release constants; empty means Release20262.
	Release string `json:"release,omitempty"`
	// UpstreamQuirks restores the defects of upstream: the statuses 500 for bad
	// input, profiles that make no request, an ARQ left in BindStarted for
	// ever, every event naming the first instance of its PATCH.
	UpstreamQuirks bool `json:"upstream_quirks,omitempty"`
	// BindDelay, if above zero, lets every bind be answered at once and finish
	// that much later on the server's clock.
	BindDelay time.Duration `json:"-"`
	// BindTimeout is upstream's bind_timeout, 60 s if zero: a delayed bind that
	// takes longer fails (UpstreamQuirks: is not reported).
	BindTimeout time.Duration `json:"-"`
	// RequireServiceToken tells whether bind, unbind and deletion by instance
	// need X-Service-Token; nil means what the release does.
	RequireServiceToken *bool `json:"require_service_token,omitempty"`
	// EnforceNewDefaults chooses the secure policy defaults (oslo.policy's
	// enforce_new_defaults).
	EnforceNewDefaults bool `json:"enforce_new_defaults,omitempty"`
	// Seed chooses the identifiers.
	Seed uint64 `json:"seed,omitempty"`
	// PublicEndpoint is the scheme and host that links start with; empty means
	// those of each request. It is upstream's [api] public_endpoint.
	PublicEndpoint string `json:"public_endpoint,omitempty"`
}

type plainConfig Config

type configJSON struct {
	plainConfig
	BindDelay   string `json:"bind_delay,omitempty"`
	BindTimeout string `json:"bind_timeout,omitempty"`
}

// MarshalJSON writes the configuration with its durations as text.
func (c Config) MarshalJSON() ([]byte, error) {
	wire := configJSON{plainConfig: plainConfig(c)}
	if c.BindDelay != 0 {
		wire.BindDelay = c.BindDelay.String()
	}
	if c.BindTimeout != 0 {
		wire.BindTimeout = c.BindTimeout.String()
	}
	return json.Marshal(wire)
}

// UnmarshalJSON reads a configuration and refuses unknown fields; the error
// matches [ErrConfig].
func (c *Config) UnmarshalJSON(data []byte) error {
	var wire configJSON
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&wire); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	for _, field := range []struct {
		name, text string
		value      *time.Duration
	}{
		{"bind_delay", wire.BindDelay, &wire.plainConfig.BindDelay},
		{"bind_timeout", wire.BindTimeout, &wire.plainConfig.BindTimeout},
	} {
		if field.text == "" {
			continue
		}
		d, err := time.ParseDuration(field.text)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrConfig, field.name, err)
		}
		*field.value = d
	}
	*c = Config(wire.plainConfig)
	return nil
}

// Validate tells whether a Server can be made of the configuration; the error
// matches [ErrConfig] and names the field.
func (c Config) Validate() error {
	switch {
	case c.Release != "" && c.Release != Release20262 && c.Release != ReleaseZed:
		return fmt.Errorf("%w: release %q (known: %s, %s)", ErrConfig, c.Release, Release20262, ReleaseZed)
	case c.BindDelay < 0:
		return fmt.Errorf("%w: bind_delay %s is negative", ErrConfig, c.BindDelay)
	case c.BindTimeout < 0:
		return fmt.Errorf("%w: bind_timeout %s is negative", ErrConfig, c.BindTimeout)
	}
	if c.PublicEndpoint == "" {
		return nil
	}
	u, err := url.Parse(c.PublicEndpoint)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return fmt.Errorf("%w: public_endpoint %q is not a URL with a host", ErrConfig, c.PublicEndpoint)
	}
	return nil
}

// withDefaults fills what the zero value stands for.
func (c Config) withDefaults() Config {
	if c.Release == "" {
		c.Release = Release20262
	}
	if c.BindTimeout == 0 {
		c.BindTimeout = defaultBindTimeout
	}
	if c.RequireServiceToken == nil {
		required := c.Release != ReleaseZed
		c.RequireServiceToken = &required
	}
	c.PublicEndpoint = strings.TrimSuffix(strings.TrimRight(c.PublicEndpoint, "/"), "/accelerator")
	return c
}

// zed reports whether the old release is spoken.
func (c Config) zed() bool { return c.Release == ReleaseZed }

// maxMinor is the highest supported minor version of API v2.
func (c Config) maxMinor() int {
	if c.zed() {
		return 2
	}
	return 3
}
