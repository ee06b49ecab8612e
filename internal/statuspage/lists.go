package statuspage

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/sim"
)

// The most that a section shows of a list.
const (
	pageSize      = 100
	shownRequests = 40
	// maxTrees is up to how many hosts are drawn with their trees.
	maxTrees = 8
)

// address is the query of a request for the page. It has what is shown of each list, so
// that links and requests for one section keep what the others show.
type address url.Values

func (a address) get(key string) string { return url.Values(a).Get(key) }

// once reports whether a key is for one request, and not for the links of its answer.
func once(key string) bool { return key == "part" || key == Leaks.String() }

// with is a link to a section with other values for some keys; an empty value removes one.
func (a address) with(section Section, pairs ...string) string {
	changed := make(url.Values, len(a))
	for key, values := range a {
		if !once(key) {
			changed[key] = values
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			changed.Del(pairs[i])
		} else {
			changed.Set(pairs[i], pairs[i+1])
		}
	}
	return "?" + changed.Encode() + "#" + section.String()
}

// list is the part of a list that is shown. Its text is the value of the section's key, its
// page that of the key with -page.
type list struct {
	Name, Label, Text     string
	First, Last, Matching int
	Previous, Next, All   string      // links; may be empty
	Others                [][2]string // what else the address has, for the form
}

func pageKey(s Section) string { return s.String() + "-page" }

// read reads the part of a list that an address names, or the last one if the list has
// become shorter.
func (a address) read(section Section, read func(Query) (shown, matching int)) list {
	page, err := strconv.Atoi(a.get(pageKey(section)))
	if err != nil || page < 1 || page > 1<<20 {
		page = 1
	}
	query := Query{Text: a.get(section.String()), Skip: (page - 1) * pageSize, Limit: pageSize}
	shown, matching := read(query)
	if query.Skip >= matching && page > 1 {
		page = max((matching+pageSize-1)/pageSize, 1)
		query.Skip = (page - 1) * pageSize
		shown, matching = read(query)
	}
	l := list{Name: section.String(), Label: section.title() + " with", Text: query.Text, First: query.Skip + 1, Last: query.Skip + shown, Matching: matching}
	if page > 1 {
		l.Previous = a.with(section, pageKey(section), strconv.Itoa(page-1))
	}
	if l.Last < matching {
		l.Next = a.with(section, pageKey(section), strconv.Itoa(page+1))
	}
	if l.Text != "" {
		l.All = a.with(section, section.String(), "", pageKey(section), "")
	}
	for key, values := range a {
		if !once(key) && key != section.String() && key != pageKey(section) {
			l.Others = append(l.Others, [2]string{key, values[0]})
		}
	}
	slices.SortFunc(l.Others, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	return l
}

// Searchable reports whether a search is of use.
func (l list) Searchable() bool { return l.Text != "" || l.Matching > maxTrees }

// Paged reports whether the list is shown in parts.
func (l list) Paged() bool { return l.Previous != "" || l.Next != "" }

// guestList is the data of the section of guests.
type guestList struct {
	list
	Guests []guest
	Lost   []string // events
}

// maxLost is how many lost events are shown.
const maxLost = 10

// guest is a guest with a link to its accelerator requests.
type guest struct{ UUID, Host, ARQs string }

func (p *Page) guests(a address) any {
	data := guestList{Lost: p.cloud.LostEvents(maxLost)}
	var found []sim.Guest
	data.list = a.read(Guests, func(q Query) (shown, matching int) {
		found, matching = p.cloud.Guests(q)
		return len(found), matching
	})
	for _, g := range found {
		data.Guests = append(data.Guests, guest{g.UUID, g.Host, a.with(ARQs, ARQs.String(), g.UUID, pageKey(ARQs), "")})
	}
	return data
}

// arqList is the data of the section of accelerator requests.
type arqList struct {
	list
	States []arqState
	ARQs   []fakecyborg.ARQ
}

// arqState is a state, how many accelerator requests are in it, and a link to them.
type arqState struct {
	Name  fakecyborg.State
	Count int
	Link  string
}

func (p *Page) arqs(a address) any {
	var page fakecyborg.ARQPage
	data := arqList{list: a.read(ARQs, func(q Query) (shown, matching int) {
		page = p.cloud.ARQs(q)
		return len(page.ARQs), page.Matching
	})}
	data.ARQs = page.ARQs
	for _, state := range states(page.States) {
		data.States = append(data.States, arqState{state, page.States[state], a.with(ARQs, ARQs.String(), string(state), pageKey(ARQs), "")})
	}
	return data
}

// flowList is the data of the section of flows.
type flowList struct {
	Diagrams      []diagram
	Older, Newest string // links; may be empty
}

func (p *Page) flows(a address) any {
	before, err := strconv.ParseUint(a.get(Flows.String()), 10, 64)
	if err != nil {
		before = newest
	}
	requests, older := p.cloud.Requests(before, shownRequests)
	data := flowList{Diagrams: diagrams(requests)}
	if older > 0 {
		data.Older = a.with(Flows, Flows.String(), strconv.FormatUint(older, 10))
	}
	if before != newest {
		data.Newest = a.with(Flows, Flows.String(), "")
	}
	return data
}

// rule is a fault rule as JSON.
type rule struct {
	Text string
	Hits int
}

func (p *Page) faults(address) any {
	var rules []rule
	for _, r := range p.cloud.Faults() {
		text, err := json.Marshal(r.Rule)
		if err != nil {
			text = []byte(err.Error())
		}
		rules = append(rules, rule{string(text), r.Hits})
	}
	return rules
}

// leakList is the data of the section of leaks.
type leakList struct {
	Leaks   []string
	More    int // leaks that are left out
	Checked bool
	Forced  bool   // checked because the address says so
	Check   string // a link that checks
}

// check is the value of the key leaks that makes a check in any case.
const check = "check"

func (p *Page) leaks(a address) any {
	data := leakList{Check: a.with(Leaks, Leaks.String(), check), Forced: a.get(Leaks.String()) == check}
	data.Leaks, data.Checked = p.cloud.Leaks(data.Forced)
	if n := len(data.Leaks); n > pageSize {
		data.Leaks, data.More = data.Leaks[:pageSize], n-pageSize
	}
	return data
}

// clock is the data of the section now.
type clock struct {
	Now    time.Time
	Manual bool
}

func (p *Page) now(address) any {
	now, manual := p.cloud.Now()
	return clock{now, manual}
}

// states are the usual states of accelerator requests, then others that occur.
func states(counts map[fakecyborg.State]int) []fakecyborg.State {
	usual := []fakecyborg.State{fakecyborg.StateInitial, fakecyborg.StateBindStarted, fakecyborg.StateBound, fakecyborg.StateBindFailed}
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		if !slices.Contains(usual, state) {
			usual = append(usual, state)
		}
	}
	return usual
}

// newest is above the number of every request.
const newest = math.MaxUint64
