package statuspage

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
)

// faultList is the data of the section of faults.
type faultList struct {
	Rules []rule
	Form  string // where forms are sent
}

// faultEntry is the data of the form that sets a fault.
type faultEntry struct {
	list                      // the search for operations
	Groups   []operationGroup // that the search finds
	Chosen   fault.Operation  // whose actions are offered; may be empty
	Values   url.Values
	Problems []problem // of a refused form
	Form     string    // where it is sent
}

// rule is a fault rule as JSON.
type rule struct {
	Text string
	Hits int
}

// operationGroup is the operations of a service.
type operationGroup struct {
	Service    string
	Operations []fault.Operation
}

// problem says what to enter in a field of the form; Field is empty for the whole rule.
type problem struct{ Field, Text string }

// faultFields are the fields of the form.
var faultFields = []string{"operation", "action", "status", "times", "when", "delay", "subject"}

func (p *Page) faults(a address) any {
	data := faultList{Form: a.with(Faults)}
	for _, r := range p.cloud.Faults() {
		data.Rules = append(data.Rules, rule{ruleText(r.Rule), r.Hits})
	}
	return data
}

func (p *Page) faultForm(a address) any {
	values := make(url.Values)
	for _, field := range faultFields {
		if value := a.get(field); value != "" {
			values.Set(field, value)
		}
	}
	return p.formWith(a, values, nil)
}

// formWith is the form with values.
func (p *Page) formWith(a address, values url.Values, problems []problem) faultEntry {
	data := faultEntry{Values: values, Problems: problems, Form: a.with(faultForm)}
	data.list = a.search(faultForm, "Operations with")
	operations := slices.SortedFunc(slices.Values(p.cloud.Operations()), func(a, b fault.Operation) int { return cmp.Compare(a.Name, b.Name) })
	data.Matching = len(operations)
	data.Chosen, _ = operationNamed(operations, values.Get("operation"))
	for _, o := range operations {
		if o.Name != data.Chosen.Name && !containsAll(string(o.Name), data.Text) {
			continue
		}
		service, _, _ := strings.Cut(string(o.Name), ".")
		if n := len(data.Groups); n == 0 || data.Groups[n-1].Service != service {
			data.Groups = append(data.Groups, operationGroup{Service: service})
		}
		group := &data.Groups[len(data.Groups)-1]
		group.Operations = append(group.Operations, o)
	}
	return data
}

// Label names the service of a group.
func (g operationGroup) Label() string {
	if known, ok := participants[g.Service]; ok {
		return known.name + " (" + g.Service + ")"
	}
	return g.Service
}

// Open reports whether the form is in use.
func (f faultEntry) Open() bool { return f.Text != "" || len(f.Values) > 0 }

// Invalid is what to enter in a field, "" if its value was not refused.
func (f faultEntry) Invalid(field string) string {
	at := slices.IndexFunc(f.Problems, func(p problem) bool { return p.Field == field })
	if at < 0 {
		return ""
	}
	return f.Problems[at].Text
}

// Label is the name of the field in the form, empty for the whole rule.
func (p problem) Label() string {
	if p.Field == "" {
		return ""
	}
	return strings.ToUpper(p.Field[:1]) + p.Field[1:]
}

// containsAll reports whether a name contains each word of a text.
func containsAll(name, text string) bool {
	return !slices.ContainsFunc(strings.Fields(text), func(word string) bool { return !strings.Contains(name, word) })
}

func operationNamed(operations []fault.Operation, name string) (fault.Operation, bool) {
	at := slices.IndexFunc(operations, func(o fault.Operation) bool { return string(o.Name) == name })
	if at < 0 {
		return fault.Operation{}, false
	}
	return operations[at], true
}

// setFault adds the rule of a form to those that are set, unless there are problems.
func (p *Page) setFault(form url.Values) []problem {
	r, problems := p.ruleOf(form)
	if len(problems) > 0 {
		return problems
	}
	err := r.Validate()
	if err == nil {
		err = p.cloud.AddFault(r)
	}
	if err != nil {
		return []problem{{"", strings.TrimPrefix(err.Error(), fault.ErrRule.Error()+": ")}}
	}
	return nil
}

// ruleOf reads a form, and says what to enter in each field that it cannot use.
func (p *Page) ruleOf(form url.Values) (r fault.Rule, problems []problem) {
	refuse := func(field, format string, args ...any) {
		problems = append(problems, problem{field, fmt.Sprintf(format, args...)})
	}
	number := func(field, want string, valid func(int) bool) int {
		text := strings.TrimSpace(form.Get(field))
		if text == "" {
			return 0
		}
		n, err := strconv.Atoi(text)
		if err != nil || !valid(n) {
			refuse(field, "%q is not %s", text, want)
		}
		return n
	}
	r = fault.Rule{
		Operation: sim.OperationName(form.Get("operation")), Action: fault.Action(form.Get("action")),
		When: fault.When(form.Get("when")), Subject: strings.TrimSpace(form.Get("subject")),
	}
	operations := p.cloud.Operations()
	operation, known := operationNamed(operations, string(r.Operation))
	switch {
	case r.Operation == "":
		refuse("operation", "choose one, such as %s", fault.ARQBind)
	case !known:
		refuse("operation", "%q does not exist; choose one of the list", r.Operation)
	case r.Action == "":
		refuse("action", "choose %s", oneOf(operation.Actions))
	case !slices.Contains(operation.Actions, r.Action):
		refuse("action", "%s does not have %q; choose %s", r.Operation, r.Action, oneOf(operation.Actions))
	}
	r.Status = number("status", "a number from 400 to 599", func(n int) bool { return n >= 400 && n <= 599 })
	r.Times = number("times", "a number from 1, or -1 for always", func(n int) bool { return n >= 1 || n == -1 })
	text := strings.TrimSpace(form.Get("delay"))
	switch delay, err := time.ParseDuration(text); {
	case text != "" && (err != nil || delay < 0):
		refuse("delay", "%q is not a duration such as 20ms", text)
	case delay == 0 && slices.Contains([]fault.Action{fault.Delay, fault.SlowBody, fault.Late, fault.Reboot}, r.Action):
		refuse("delay", "enter a duration such as 20ms, which the action %s needs", r.Action)
	default:
		r.Delay = delay
	}
	return r, problems
}

// oneOf names the actions to choose from.
func oneOf(actions []fault.Action) string {
	if len(actions) == 0 {
		return "another operation"
	}
	text := string(actions[0])
	for i, action := range actions[1:] {
		if i == len(actions)-2 {
			text += " or " + string(action)
		} else {
			text += ", " + string(action)
		}
	}
	return text
}
