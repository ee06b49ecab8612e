package statuspage

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/gocyborg/gocyborg/fault"
)

// maxForm is the longest form that is read, in bytes.
const maxForm = 64 << 10

// act does what a form of the page asks for, and shows the section of the form. A refused form is shown again with
// what to enter.
func (p *Page) act(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	a := address(r.URL.Query())
	section, again := Faults, make(map[Section]any) // again: the data of the section with the refused form
	switch r.PostForm.Get("do") {
	case "set-fault":
		if problems := p.setFault(r.PostForm); len(problems) > 0 {
			again[faultForm] = p.formWith(a, r.PostForm, problems)
		}
	case "remove-fault":
		if err := p.removeFault(r.PostForm); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	case "advance":
		section = Now
		if err := p.advance(r.Context(), r.PostForm); err != nil {
			shown := p.nowOf(a)
			shown.By, shown.Problem = r.PostForm.Get("by"), err.Error()
			again[Now] = shown
		}
	default:
		http.Error(w, "the form does not say what to do", http.StatusBadRequest)
		return
	}
	if len(again) > 0 {
		p.writeAll(w, r, http.StatusBadRequest, again)
		return
	}
	var empty []string // the form that was filled in with the address
	for _, field := range faultFields {
		empty = append(empty, field, "")
	}
	http.Redirect(w, r, a.with(section, empty...), http.StatusSeeOther)
}

func (p *Page) advance(ctx context.Context, form url.Values) error {
	by, err := time.ParseDuration(form.Get("by"))
	if err != nil || by < 0 {
		return fmt.Errorf("%q is not a duration; enter one such as 90s or 1h30m", form.Get("by"))
	}
	return p.cloud.Advance(ctx, by)
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
