package keystone

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// ErrConfig is matched by the errors of Config.Validate.
var ErrConfig = errors.New("keystone: bad configuration")

// User is a user of Config. The projects and roles that it names exist.
type User struct {
	Name string
	// Password is the constant Password if empty.
	Password string
	// Roles are the roles by the name of the project they are on; implied roles are
	// added. A user without any can log in, unscoped.
	Roles map[string][]string
	// SystemRoles are the roles on the whole cloud.
	SystemRoles []string
}

// plainName is what names of users, projects and roles may look like here.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$`)

// Validate checks the users; the error matches [ErrConfig] and names the user.
func (c Config) Validate() error {
	if c.TokenLifetime < 0 {
		return fmt.Errorf("%w: token lifetime %s is negative", ErrConfig, c.TokenLifetime)
	}
	seen := make(map[string]bool)
	for i, u := range c.Users {
		if !plainName.MatchString(u.Name) || seen[u.Name] {
			return fmt.Errorf("%w: users[%d]: the name %q is taken, empty or has other characters than letters, digits and _.@-", ErrConfig, i, u.Name)
		}
		seen[u.Name] = true
		for _, project := range slices.Sorted(maps.Keys(u.Roles)) {
			if !plainName.MatchString(project) || len(u.Roles[project]) == 0 {
				return fmt.Errorf("%w: user %s: project %q is no name, or has no role", ErrConfig, u.Name, project)
			}
			if err := checkRoles(u.Name, u.Roles[project]); err != nil {
				return err
			}
		}
		if err := checkRoles(u.Name, u.SystemRoles); err != nil {
			return err
		}
	}
	return nil
}

func checkRoles(user string, roles []string) error {
	for _, role := range roles {
		if !plainName.MatchString(role) {
			return fmt.Errorf("%w: user %s: role %q is no name", ErrConfig, user, role)
		}
	}
	return nil
}
