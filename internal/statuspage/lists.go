package statuspage

import (
	"cmp"
	"maps"
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
	shownOfStory  = 120
	// maxTrees is up to how many hosts are drawn with their trees.
	maxTrees = 8
)

// address is the query of a request for the page. It has what is shown of each list, so
// that links and requests for one section keep what the others show.
type address url.Values

func (a address) get(key string) string { return url.Values(a).Get(key) }

// once reports whether a key is for one request, and not for the links of its answer.
func once(key string) bool { return key == "part" || key == "do" || key == Leaks.String() }

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

// list is the part of a list that is shown. Its text is the value of the section's key, its page
// the value of the key with -page.
type list struct {
	Name, Label, Text     string
	First, Last, Matching int
	Previous, Next, All   string      // links; may be empty
	Others                [][2]string // what else the address has, for the form
}

func pageKey(s Section) string {
	if s == Flows { // whose parts begin with numbers that stay the same
		return "before"
	}
	return s.String() + "-page"
}

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
	l := a.search(section, section.title()+" with")
	l.First, l.Last, l.Matching = query.Skip+1, query.Skip+shown, matching
	if page > 1 {
		l.Previous = a.with(section, pageKey(section), strconv.Itoa(page-1))
	}
	if l.Last < matching {
		l.Next = a.with(section, pageKey(section), strconv.Itoa(page+1))
	}
	return l
}

// search is the form that searches a section.
func (a address) search(section Section, label string) list {
	l := list{Name: section.String(), Label: label, Text: a.get(section.String())}
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

// guest is a guest with links to its accelerator requests and to its story.
type guest struct{ UUID, Host, ARQs, Story string }

func (p *Page) guests(a address) any {
	data := guestList{Lost: p.cloud.LostEvents(maxLost)}
	var found []sim.Guest
	data.list = a.read(Guests, func(q Query) (shown, matching int) {
		found, matching = p.cloud.Guests(q)
		return len(found), matching
	})
	for _, g := range found {
		data.Guests = append(data.Guests, guest{g.UUID, g.Host, a.with(ARQs, ARQs.String(), g.UUID, pageKey(ARQs), ""), a.story(g.UUID)})
	}
	return data
}

// arqList is the data of the section of accelerator requests.
type arqList struct {
	list
	States []arqState
	ARQs   []arq
	Failed []arq // the newest failed binds, the newest first
}

// arq is an accelerator request with a link to its story.
type arq struct {
	fakecyborg.ARQ
	Story string
}

// maxFailed is how many failed binds are shown above the list.
const maxFailed = 5

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
	withStory := func(found []fakecyborg.ARQ) (list []arq) {
		for _, r := range found {
			list = append(list, arq{r, a.story(cmp.Or(r.InstanceUUID, r.UUID))})
		}
		return list
	}
	data.ARQs = withStory(page.ARQs)
	if n := page.States[fakecyborg.StateBindFailed]; n > 0 {
		data.Failed = withStory(p.cloud.ARQs(Query{Text: string(fakecyborg.StateBindFailed), Skip: max(0, n-maxFailed), Limit: maxFailed}).ARQs)
		slices.Reverse(data.Failed)
	}
	for _, state := range states(page.States) {
		data.States = append(data.States, arqState{state, page.States[state], a.with(ARQs, ARQs.String(), string(state), pageKey(ARQs), "")})
	}
	return data
}

// clock is the data of the section now.
type clock struct {
	About
	Now     time.Time
	Up      time.Duration
	Manual  bool
	Form    string // where forms are sent
	By      string // how far to advance
	Problem string // of a refused form
}

func (p *Page) now(a address) any { return p.nowOf(a) }

func (p *Page) nowOf(a address) clock {
	now, manual := p.cloud.Now()
	about := p.cloud.About()
	return clock{About: about, Now: now, Up: max(0, now.Sub(about.Since)).Truncate(time.Second), Manual: manual, Form: a.with(Now), By: "60s"}
}

func (p *Page) unrecognized(address) any { return p.cloud.Unrecognized() }

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
