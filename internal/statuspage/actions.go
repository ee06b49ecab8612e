package statuspage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gocyborg/gocyborg/fault"
)

// maxForm is the longest form that is read, in bytes.
const maxForm = 64 << 10

// act does what a form of the page asks for, and shows the section of the form.
func (p *Page) act(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	section, do := Faults, p.setFault
	switch r.PostForm.Get("do") {
	case "set-fault":
	case "remove-fault":
		do = p.removeFault
	case "advance":
		section, do = Now, func(form url.Values) error { return p.advance(r.Context(), form) }
	default:
		http.Error(w, "the form does not say what to do", http.StatusBadRequest)
		return
	}
	if err := do(r.PostForm); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	http.Redirect(w, r, address(r.URL.Query()).with(section), http.StatusSeeOther)
}

func (p *Page) advance(ctx context.Context, form url.Values) error {
	by, err := time.ParseDuration(form.Get("by"))
	if err != nil || by < 0 {
		return fmt.Errorf("by: %q is not a duration such as 90s", form.Get("by"))
	}
	return p.cloud.Advance(ctx, by)
}

// setFault adds a rule to those that are set.
func (p *Page) setFault(form url.Values) error {
	text := map[string]any{"operation": form.Get("operation"), "action": form.Get("action")}
	for _, key := range []string{"subject", "when", "delay"} {
		if value := form.Get(key); value != "" {
			text[key] = value
		}
	}
	for _, key := range []string{"status", "times"} {
		if value := form.Get(key); value != "" {
			number, err := strconv.Atoi(value)
			if err != nil {
				return fmt.Errorf("%s: %q is not a whole number", key, value)
			}
			text[key] = number
		}
	}
	data, err := json.Marshal([]any{text})
	if err != nil {
		return err
	}
	added, err := fault.ParseRules(data)
	if err != nil {
		return err
	}
	for _, r := range added {
		if err := p.cloud.AddFault(r); err != nil {
			return err
		}
	}
	return nil
}

// removeFault removes the rule with the text in a form.
func (p *Page) removeFault(form url.Values) error {
	rules, err := fault.ParseRules([]byte("[" + form.Get("rule") + "]"))
	if err != nil {
		return err
	}
	for _, r := range rules {
		p.cloud.RemoveFault(r)
	}
	return nil
}

func ruleText(r fault.Rule) string {
	text, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// faultList is the data of the section of faults.
type faultList struct {
	Rules      []rule
	Operations []fault.Operation
	Actions    []fault.Action // of any operation
	Form       string         // where forms are sent
}

// rule is a fault rule as JSON.
type rule struct {
	Text string
	Hits int
}

func (p *Page) faults(a address) any {
	data := faultList{Form: a.with(Faults)}
	for _, r := range p.cloud.Faults() {
		data.Rules = append(data.Rules, rule{ruleText(r.Rule), r.Hits})
	}
	data.Operations = p.cloud.Operations()
	for _, o := range data.Operations {
		for _, action := range o.Actions {
			if !slices.Contains(data.Actions, action) {
				data.Actions = append(data.Actions, action)
			}
		}
	}
	return data
}
