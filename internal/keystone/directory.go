package keystone

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
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

// directory is who exists; it never changes, so it needs no lock.
type directory struct {
	users    []user
	projects []project
	roleIDs  map[string]string
}

type user struct {
	id, name, password string
	// roles by project name; systemRoles on the whole cloud. Implied roles are
	// already in.
	roles       map[string][]string
	systemRoles []string
}

type project struct{ id, name string }

func newDirectory(seed uint64, users []User) directory {
	id := func(kind, name string) string { return stableID(seed, kind, name) }
	d := directory{roleIDs: map[string]string{}}
	for _, name := range []string{"admin", "demo", "service"} {
		d.projects = append(d.projects, project{id("project", name), name})
	}
	for _, name := range []string{roleAdmin, roleManager, roleMember, roleReader, roleService} {
		d.roleIDs[name] = id("role", name)
	}
	add := func(name, project string, roles ...string) *user {
		d.users = append(d.users, user{id: id("user", name), name: name, password: Password, roles: map[string][]string{project: withImplied(roles)}})
		return &d.users[len(d.users)-1]
	}
	add("admin", "admin", roleAdmin).systemRoles = withImplied([]string{roleAdmin})
	add("demo", "demo", roleMember)
	add("nova", "service", roleService)
	add("cyborg", "service", roleService, roleAdmin)
	for _, u := range users {
		d.enrol(seed, u)
	}
	return d
}

// enrol adds a user, or replaces the one of that name, with the projects and
// roles that it names.
func (d *directory) enrol(seed uint64, u User) {
	row := user{id: stableID(seed, "user", u.Name), name: u.Name, password: u.Password, roles: make(map[string][]string)}
	if row.password == "" {
		row.password = Password
	}
	for _, name := range slices.Sorted(maps.Keys(u.Roles)) {
		if !slices.ContainsFunc(d.projects, func(p project) bool { return p.name == name }) {
			d.projects = append(d.projects, project{stableID(seed, "project", name), name})
		}
		row.roles[name] = withImplied(u.Roles[name])
		d.nameRoles(seed, row.roles[name])
	}
	if len(u.SystemRoles) > 0 {
		row.systemRoles = withImplied(u.SystemRoles)
		d.nameRoles(seed, row.systemRoles)
	}
	d.users = slices.DeleteFunc(d.users, func(other user) bool { return other.name == u.Name })
	d.users = append(d.users, row)
}

func (d *directory) nameRoles(seed uint64, roles []string) {
	for _, role := range roles {
		d.roleIDs[role] = stableID(seed, "role", role)
	}
}

// withImplied adds the roles that Keystone's bootstrap makes others imply: admin
// implies manager, manager member, member reader.
func withImplied(roles []string) []string {
	chain := []string{roleAdmin, roleManager, roleMember, roleReader}
	all := slices.Clone(roles)
	for i, role := range chain {
		if slices.Contains(roles, role) {
			all = append(all, chain[i:]...)
			break
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// stableID is a function of its arguments in the form of Keystone's identifiers: a
// UUID without hyphens.
func stableID(seed uint64, kind, name string) string {
	id := uuid.NewSHA1(uuid.NameSpaceURL, append(binary.BigEndian.AppendUint64(nil, seed), kind+"/"+name...))
	return hex.EncodeToString(id[:])
}

// findUser looks by id, or by name within the domain.
func (d *directory) findUser(ref userRef) (*user, bool) {
	for i := range d.users {
		u := &d.users[i]
		if ref.ID == u.id || ref.ID == "" && ref.Name == u.name && ref.Domain.isDefault() {
			return u, true
		}
	}
	return nil, false
}

// findProject looks by id, or by name within the domain.
func (d *directory) findProject(ref projectRef) (*project, bool) {
	for i := range d.projects {
		p := &d.projects[i]
		if ref.ID == p.id || ref.ID == "" && ref.Name == p.name && ref.Domain.isDefault() {
			return p, true
		}
	}
	return nil, false
}

func (d *directory) userNamed(name string) (*user, bool) {
	return d.findUser(userRef{Name: name, Domain: &domainRef{ID: domainID}})
}

// owned finds a user and a project of the configuration, where the user has a role. No
// project is none.
func (d *directory) owned(userName, projectName string) (*user, *project, error) {
	u, ok := d.userNamed(userName)
	if !ok {
		return nil, nil, errors.New("the configuration has no such user")
	}
	if projectName == "" {
		return u, nil, nil
	}
	p, ok := d.findProject(projectRef{Name: projectName, Domain: &domainRef{ID: domainID}})
	if !ok {
		return nil, nil, fmt.Errorf("the configuration has no project %q", projectName)
	}
	if len(u.roles[p.name]) == 0 {
		return nil, nil, fmt.Errorf("the configuration gives the user no role on project %q", projectName)
	}
	return u, p, nil
}

// isDefault reports whether the reference is to the only domain. Names compare without case, as
// they do in the databases that Keystone is deployed on.
func (d *domainRef) isDefault() bool {
	return d != nil && (d.ID == domainID || d.ID == "" && strings.EqualFold(d.Name, domainName))
}
