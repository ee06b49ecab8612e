package keystone

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/gocyborg/gocyborg/internal/collation"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/tables"
)

const (
	accessRulesPath = "/v3/users/{id}/access_rules"
	accessRulePath  = accessRulesPath + "/{rule}"
)

// accessRule is a rule to restrict application credentials of a user. It is kept when they are deleted.
type accessRule struct {
	Number int64  `json:"number"`
	User   string `json:"user"` // by name
	accessRuleBody
}

// accessRuleBody is an access rule on the wire, and in rows.
type accessRuleBody struct {
	ID      string `json:"id"`
	Service string `json:"service"`
	Path    string `json:"path"`
	Method  string `json:"method"`
}

func (r accessRule) check() error {
	if r.ID == "" || r.User == "" || r.Service == "" || r.Path == "" || r.Method == "" {
		return errMissing
	}
	return nil
}

// same is unique among the access rules.
func (r accessRule) same() string { return r.User + " " + r.Service + " " + r.Method + " " + r.Path }

// putRules finds the access rules of a new application credential, or makes them, and returns their ids.
func (s *Server) putRules(tx *tables.Tx, user string, sent []accessRuleBody) (ids []string, err error) {
	for i, body := range sent {
		rule := accessRule{User: user, accessRuleBody: body}
		found, ok := s.state.ruleByID.Get(tx, body.ID)
		if !ok {
			found, ok = s.state.ruleBySame.Get(tx, rule.same())
		}
		if !ok {
			for _, member := range []struct{ name, value string }{{"service", body.Service}, {"path", body.Path}, {"method", body.Method}} {
				if member.value == "" { // Keystone fails with 500
					return nil, malformed(member.name, fmt.Sprintf("access_rules/%d", i))
				}
			}
			rule.Number = s.state.ruleNumbers.Next(tx)
			rule.ID = cmp.Or(body.ID, stableID(s.cfg.Seed, "access_rule", fmt.Sprint(rule.Number)))
			s.state.rules.Put(tx, rule)
			found = rule
		}
		if found.User != user {
			return nil, notFound("Access Rule", body.ID)
		}
		if !slices.Contains(ids, found.ID) {
			ids = append(ids, found.ID)
		}
	}
	return ids, nil
}

// rulesOf are the access rules of an application credential.
func (s *Server) rulesOf(c credential) (rules []accessRuleBody) {
	s.state.db.View(func(tx *tables.Tx) {
		for _, id := range c.AccessRules {
			if rule, ok := s.state.ruleByID.Get(tx, id); ok {
				rules = append(rules, rule.accessRuleBody)
			}
		}
	})
	return rules
}

// ruleOwner finds the user of the path, who must be the caller, or any user if the caller has a
// role on the system.
func (s *Server) ruleOwner(c *simhttp.Call, who session, policy, systemRole string) (*user, error) {
	if found, ok := s.directory.findUser(ref{ID: c.PathValue("id")}); ok && (who.user == found || who.System && slices.Contains(who.roles, systemRole)) {
		return found, nil
	}
	return nil, forbidden(policy)
}

// wire is the rule as clients see it.
func (r accessRule) wire(c *simhttp.Call) map[string]any {
	return body(c, "access_rules", r.ID, map[string]any{"service": r.Service, "path": r.Path, "method": r.Method})
}

var accessRuleFilters = filters{"service", "path", "method"}

func (s *Server) listRules(c *simhttp.Call, who session) error {
	owner, err := s.ruleOwner(c, who, "identity:list_access_rules", roleReader)
	if err != nil {
		return err
	}
	list := []map[string]any{}
	s.state.db.View(func(tx *tables.Tx) {
		for rule := range s.state.rules.All(tx) {
			if rule.User == owner.name {
				list = append(list, rule.wire(c))
			}
		}
	})
	return listOf(c, "access_rules", accessRuleFilters.apply(c, collation.Exact, list))
}

// ruleOf finds the access rule of the path among the user's rules.
func (s *Server) ruleOf(tx *tables.Tx, c *simhttp.Call, owner *user) (accessRule, error) {
	id := c.PathValue("rule")
	found, ok := s.state.ruleByID.Get(tx, id)
	if !ok || found.User != owner.name {
		return found, notFound("Access Rule", id)
	}
	return found, nil
}

func (s *Server) getRule(c *simhttp.Call, who session) error {
	owner, err := s.ruleOwner(c, who, "identity:get_access_rule", roleReader)
	if err != nil {
		return err
	}
	var found accessRule
	s.state.db.View(func(tx *tables.Tx) { found, err = s.ruleOf(tx, c, owner) })
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"access_rule": found.wire(c)})
}

// deleteRule deletes an access rule that no application credential has.
func (s *Server) deleteRule(c *simhttp.Call, who session) error {
	owner, err := s.ruleOwner(c, who, "identity:delete_access_rule", roleAdmin)
	if err != nil {
		return err
	}
	s.state.db.Update(c.Log(), func(tx *tables.Tx) {
		var found accessRule
		if found, err = s.ruleOf(tx, c, owner); err != nil {
			return
		}
		for credential := range s.state.credentials.All(tx) {
			if slices.Contains(credential.AccessRules, found.ID) {
				err = simhttp.Refuse(http.StatusForbidden, "May not delete access rule in use")
				return
			}
		}
		s.state.rules.Delete(tx, found.Number)
	})
	if err != nil {
		return err
	}
	return c.Empty(http.StatusNoContent)
}
