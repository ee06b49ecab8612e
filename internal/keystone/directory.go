package keystone

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/internal/collation"
)

const (
	roleAdmin   = "admin"
	roleManager = "manager"
	roleMember  = "member"
	roleReader  = "reader"
	roleService = "service"
)

const (
	domainID   = "default"
	domainName = "Default"
)

// directory holds users, projects and roles. It never changes, so it needs no lock.
type directory struct {
	key      collation.Key // compares names and ids
	users    []user
	projects []project
	roleIDs  map[string]string
}

type user struct {
	id, name, password string
	// granted by project name; systemGranted on the whole cloud.
	granted       map[string][]string
	systemGranted []string
	// roles and systemRoles also contain implied roles.
	roles       map[string][]string
	systemRoles []string
}

type project struct{ id, name string }

// newDirectory returns a directory with the users of DevStack and of the configuration.
func newDirectory(seed uint64, key collation.Key, users []User) directory {
	d := directory{key: key, roleIDs: map[string]string{}}
	for _, u := range slices.Concat([]User{
		{Name: "admin", Roles: map[string][]string{"admin": {roleAdmin}}, SystemRoles: []string{roleAdmin}},
		{Name: "demo", Roles: map[string][]string{"demo": {roleMember}}},
		{Name: "nova", Roles: map[string][]string{"service": {roleService}}},
		{Name: "cyborg", Roles: map[string][]string{"service": {roleService, roleAdmin}}},
	}, users) {
		d.enrol(seed, u)
	}
	return d
}

// enrol adds a user, or replaces the user of that name, with the projects and
// roles that it names.
func (d *directory) enrol(seed uint64, u User) {
	row := user{
		id: stableID(seed, "user", u.Name), name: u.Name, password: cmp.Or(u.Password, Password),
		systemGranted: u.SystemRoles, roles: make(map[string][]string), systemRoles: withImplied(u.SystemRoles),
	}
	row.granted = make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(u.Roles)) {
		p, ok := d.findProject(inDomain(name))
		if !ok {
			d.projects = append(d.projects, project{stableID(seed, "project", name), name})
			p = &d.projects[len(d.projects)-1]
		}
		row.granted[p.name] = append(row.granted[p.name], u.Roles[name]...)
		row.roles[p.name] = withImplied(row.granted[p.name])
	}
	for _, roles := range append(slices.Collect(maps.Values(row.roles)), row.systemRoles) {
		for _, role := range roles {
			d.roleIDs[role] = stableID(seed, "role", role)
		}
	}
	d.users = slices.DeleteFunc(d.users, func(other user) bool { return d.key.Equal(other.name, u.Name) })
	d.users = append(d.users, row)
}

// implied are the roles of Keystone's bootstrap. Each implies the next.
var implied = []string{roleAdmin, roleManager, roleMember, roleReader}

// withImplied adds the roles that some imply.
func withImplied(roles []string) []string {
	all := slices.Clone(roles)
	for i, role := range implied {
		if slices.Contains(roles, role) {
			all = append(all, implied[i:]...)
			break
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// implying is the role that implies another one, or "" if none of the roles does.
func implying(role string, roles []string) string {
	if i := slices.Index(implied, role); i > 0 && slices.Contains(roles, implied[i-1]) {
		return implied[i-1]
	}
	return ""
}

// idLength is the length of an identifier.
const idLength = 32

// stableID is a function of its arguments in the form of Keystone's identifiers: a
// UUID without hyphens.
func stableID(seed uint64, kind, name string) string {
	id := uuid.NewSHA1(uuid.NameSpaceURL, append(binary.BigEndian.AppendUint64(nil, seed), kind+"/"+name...))
	return hex.EncodeToString(id[:])
}

func (d *directory) findUser(named ref) (*user, bool) {
	named = d.folded(named)
	i := slices.IndexFunc(d.users, func(u user) bool { return named.is(d.key(u.id), d.key(u.name)) })
	if i < 0 {
		return nil, false
	}
	return &d.users[i], true
}

func (d *directory) findProject(named ref) (*project, bool) {
	named = d.folded(named)
	i := slices.IndexFunc(d.projects, func(p project) bool { return named.is(d.key(p.id), d.key(p.name)) })
	if i < 0 {
		return nil, false
	}
	return &d.projects[i], true
}

// folded is a reference by the keys of its name and id, and by the name of the domain as it is stored, or none. The id of a
// domain is compared in Python.
func (d *directory) folded(named ref) ref {
	named.ID, named.Name = d.key(named.ID), d.key(named.Name)
	if named.Domain == nil || named.Domain.Name == "" {
		return named
	}
	domain := domainRef{ID: named.Domain.ID}
	if d.key.Equal(named.Domain.Name, domainName) {
		domain.Name = domainName
	}
	named.Domain = &domain
	return named
}

// owned finds a user and a project of the configuration, where the user has a role. An empty
// project name means no project.
func (d *directory) owned(userName, projectName string) (*user, *project, error) {
	u, ok := d.findUser(inDomain(userName))
	if !ok {
		return nil, nil, errors.New("the configuration has no such user")
	}
	if projectName == "" {
		return u, nil, nil
	}
	p, ok := d.findProject(inDomain(projectName))
	if !ok {
		return nil, nil, fmt.Errorf("the configuration has no project %q", projectName)
	}
	if len(u.roles[p.name]) == 0 {
		return nil, nil, fmt.Errorf("the configuration gives the user no role on project %q", projectName)
	}
	return u, p, nil
}

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

// plainName matches the names of users, projects and roles that are allowed here.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$`)

// Validate checks the users; the error matches [ErrConfig] and names the user.
func (c Config) Validate() error {
	if c.TokenLifetime < 0 {
		return fmt.Errorf("%w: token lifetime %s is negative", ErrConfig, c.TokenLifetime)
	}
	seen := collation.NewMap[bool](c.key())
	for i, u := range c.Users {
		if !plainName.MatchString(u.Name) || seen.Get(u.Name) {
			return fmt.Errorf("%w: users[%d]: the name %q is taken, empty or has other characters than letters, digits and _.@-", ErrConfig, i, u.Name)
		}
		seen.Set(u.Name, true)
		for _, project := range slices.Sorted(maps.Keys(u.Roles)) {
			if !plainName.MatchString(project) || len(u.Roles[project]) == 0 {
				return fmt.Errorf("%w: user %s: project %q is not a name, or has no role", ErrConfig, u.Name, project)
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
			return fmt.Errorf("%w: user %s: role %q is not a name", ErrConfig, user, role)
		}
	}
	return nil
}
