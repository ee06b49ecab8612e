package simcloud

import (
	"time"

	"github.com/gocyborg/gocyborg/internal/keystone"
)

// User is somebody who can log in. The projects and roles that it names exist.
type User struct {
	Name string `json:"name"`
	// Password is the constant Password if empty.
	Password string `json:"password,omitempty"`
	// Roles are the roles by the name of the project they are on: admin, manager,
	// member and reader, each of which implies those after it, service, or others.
	Roles map[string][]string `json:"roles,omitempty"`
	// SystemRoles are the roles on the whole cloud.
	SystemRoles []string `json:"system_roles,omitempty"`
}

// Duration is a time.Duration that is text such as "90s" in files.
type Duration time.Duration

// String returns the text.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// identity is the model as Keystone's configuration.
func (m Model) identity() keystone.Config {
	cfg := keystone.Config{Seed: m.Seed, Region: m.Region, TokenLifetime: time.Duration(m.TokenLifetime), Services: catalog()}
	for _, u := range m.Users {
		cfg.Users = append(cfg.Users, keystone.User(u))
	}
	return cfg
}
