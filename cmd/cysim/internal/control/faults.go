package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// Fault lists and changes the fault rules of a server.
type Fault struct {
	List       faultList       `cmd:"" default:"withargs" help:"List the fault rules with their hit counts."`
	Add        faultAdd        `cmd:"" help:"Add a fault rule."`
	Clear      faultClear      `cmd:"" help:"Remove all fault rules."`
	Operations faultOperations `cmd:"" help:"List the operations that a rule can make fail, with their actions."`
}

type faultList struct {
	Server
	Output string `short:"o" enum:"text,json" default:"text" help:"Output format: text, a table; json, a list with rule and hits."`
}

// Run implements the command.
func (c *faultList) Run(ctx context.Context, p *command.Process) error {
	var rules []fault.State
	if err := c.Show(ctx, "faults", "rules", &rules); err != nil {
		return fmt.Errorf("fault list: %w", err)
	}
	return writeRules(p, c.Output, rules)
}

func writeRules(p *command.Process, output string, rules []fault.State) error {
	header := []any{"Operation", "Subject", "Matches", "When", "Action", "Hits"}
	return command.WriteTable(p.Stdout, output, "no fault rules", rules, header, func(s fault.State) []any {
		r := s.Rule
		action := string(r.Action)
		if r.Status != 0 {
			action += " " + strconv.Itoa(r.Status)
		}
		if r.Code != "" {
			action += " " + r.Code
		}
		if r.Delay != 0 {
			action += " " + r.Delay.String()
		}
		return []any{string(r.Operation), cmp.Or(r.Subject, "any"), matches(r), string(cmp.Or(r.When, fault.Before)), action, s.Hits}
	})
}

// matches names the matches of a rule that fail.
func matches(r fault.Rule) string {
	first := max(r.Nth, 1)
	text := strconv.Itoa(first)
	switch {
	case r.Times < 0 || r.Times == 0 && r.Probability > 0:
		text += " and all later"
	case r.Times > 1:
		text += fmt.Sprintf(" to %d", first+r.Times-1)
	}
	if r.Probability > 0 {
		text += fmt.Sprintf(", each with probability %g", r.Probability)
	}
	return text
}

type faultAdd struct {
	Server
	Operation   string        `arg:"" help:"Operation that fails, such as accelerator.arq.bind, or accelerator.* for every request of a service (with --times all, an outage); cysim fault operations lists them."`
	Action      string        `arg:"" help:"What happens instead, such as status, drop or delay."`
	Subject     string        `placeholder:"ID" help:"Only for this first identifier in the path. Default: any, each counted separately."`
	Nth         int           `placeholder:"N" help:"First match that fails. Default: 1."`
	Times       times         `placeholder:"N" help:"Number of matches that fail, or all. Default: 1, or all with a probability."`
	Probability float64       `placeholder:"P" help:"Probability that each of these matches fails, above 0 and at most 1. Default: 1."`
	When        string        `enum:",before,after" default:"" placeholder:"before|after" help:"Fail before or after the change is applied. Default: before."`
	Status      int           `placeholder:"STATUS" help:"HTTP status of the actions status, proxy and late."`
	Code        string        `placeholder:"CODE" help:"Error code of the action status, in the format of the service."`
	Delay       time.Duration `placeholder:"TIME" help:"Duration of the actions delay, slow-body, late and reboot, such as 90s."`
	Output      string        `short:"o" enum:"text,json" default:"text" help:"Output format of the rule that was added: text, a table; json, a list with rule and hits."`
}

// ruleError is an error about a list of one rule, without its position.
type ruleError struct{ error }

// Error implements error.
func (e ruleError) Error() string {
	return strings.TrimPrefix(strings.TrimPrefix(e.error.Error(), "rule 0: "), fault.ErrRule.Error()+": ")
}

// Unwrap returns the whole error.
func (e ruleError) Unwrap() error { return e.error }

// times is a number of matches.
type times int

// UnmarshalText implements encoding.TextUnmarshaler, for kong.
func (n *times) UnmarshalText(text []byte) error {
	if string(text) == "all" {
		*n = -1
		return nil
	}
	number, err := strconv.Atoi(string(text))
	if err != nil {
		return errors.New("want a number, or all")
	}
	*n = times(number)
	return nil
}

// Run implements the command.
func (c *faultAdd) Run(ctx context.Context, p *command.Process) error {
	rule := fault.Rule{
		Operation: sim.OperationName(c.Operation), Action: fault.Action(c.Action), Subject: c.Subject, Nth: c.Nth, Times: int(c.Times),
		Probability: c.Probability, When: fault.When(c.When), Status: c.Status, Code: c.Code, Delay: c.Delay,
	}
	if err := rule.Validate(); err != nil {
		return command.BadInput(fmt.Errorf("fault add: %w", ruleError{err}))
	}
	if err := c.Change(ctx, http.MethodPost, "faults", []fault.Rule{rule}); err != nil {
		return fmt.Errorf("fault add: %w", ruleError{err})
	}
	return writeRules(p, c.Output, []fault.State{{Rule: rule}})
}

type faultClear struct{ Server }

// Run implements the command.
func (c *faultClear) Run(ctx context.Context, p *command.Process) error {
	if err := c.Change(ctx, http.MethodDelete, "faults", nil); err != nil {
		return fmt.Errorf("fault clear: %w", err)
	}
	_, err := fmt.Fprintln(p.Stdout, "no fault rules")
	return err
}

type faultOperations struct {
	Server
	Prefix string `arg:"" optional:"" help:"Beginning of the names, such as accelerator.arq."`
	Output string `short:"o" enum:"text,json" default:"text" help:"Output format: text, one line per operation; json, a list with operation, subject and actions."`
}

// Run implements the command.
func (c *faultOperations) Run(ctx context.Context, p *command.Process) error {
	var operations []fault.Operation
	if err := c.Show(ctx, "routes", "operations", &operations); err != nil {
		return fmt.Errorf("fault operations: %w", err)
	}
	operations = slices.DeleteFunc(operations, func(o fault.Operation) bool { return !strings.HasPrefix(string(o.Name), c.Prefix) })
	return command.WriteList(p.Stdout, c.Output, operations, func(o fault.Operation) string {
		var actions []string
		for _, action := range o.Actions {
			actions = append(actions, string(action))
		}
		return fmt.Sprintf("%s  subject: %s; actions: %s", o.Name, o.Subject, strings.Join(actions, ", "))
	})
}
