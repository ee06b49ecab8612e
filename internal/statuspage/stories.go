package statuspage

import (
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/sim"
)

// topic is what a request is about.
type topic struct {
	instance string   // UUID; may be empty
	ids      []string // the instance, its accelerator requests and the global request ID
}

var ofInstance = regexp.MustCompile(`instance(?:_uuid)?(?: none ->)? (` + uuidPattern + `)`)

// topicOf returns the topic of a request. A request about several instances has no topic, because
// it would merge their stories.
func topicOf(r sim.Exchange) topic {
	t := topic{}
	several := false
	add := func(id string) {
		if id != "" && !slices.Contains(t.ids, id) {
			t.ids = append(t.ids, id)
		}
	}
	of := func(instance string) {
		several = several || t.instance != "" && t.instance != instance
		t.instance = instance
		add(instance)
	}
	add(r.GlobalRequestID)
	switch operation := string(r.Operation); {
	case strings.HasPrefix(operation, "placement.allocations.") && r.Subject != "":
		of(r.Subject)
	case strings.HasPrefix(operation, "accelerator.arq."):
		if _, after, found := strings.Cut(r.Query, "instance="); found {
			for _, id := range uuids.FindAllString(after, 1) {
				of(id)
			}
		}
		for _, id := range uuids.FindAllString(r.Path+" "+r.Query, -1) {
			add(id)
		}
	}
	for _, c := range r.Changes {
		consumer, _, _ := strings.Cut(c.ID, "/")
		switch c.Kind {
		case "consumer", "allocation":
			of(consumer)
		case "accelerator_request":
			add(c.ID)
			fallthrough
		case "event":
			if found := ofInstance.FindStringSubmatch(c.What); found != nil {
				of(found[1])
			}
			if _, tag, found := strings.Cut(c.What, ", tag "); found {
				add(uuids.FindString(tag))
			}
		}
	}
	if several {
		return topic{}
	}
	return t
}

// stories joins the topics of requests that have an identifier in common.
type stories struct {
	parent   map[string]string
	instance map[string]string // by the representative of a story
}

func newStories() *stories {
	return &stories{parent: make(map[string]string), instance: make(map[string]string)}
}

// find returns the representative of an identifier's story.
func (s *stories) find(id string) string {
	for s.parent[id] != id {
		s.parent[id] = s.parent[s.parent[id]]
		id = s.parent[id]
	}
	return id
}

// add joins the identifiers of a topic.
func (s *stories) add(t topic) {
	for i, id := range t.ids {
		if _, known := s.parent[id]; !known {
			s.parent[id] = id
		}
		if i > 0 {
			s.join(s.find(t.ids[0]), s.find(id))
		}
	}
	if t.instance != "" {
		s.instance[s.find(t.instance)] = t.instance
	}
}

func (s *stories) join(a, b string) {
	if a == b {
		return
	}
	s.parent[b] = a
	if instance := s.instance[b]; instance != "" {
		s.instance[a] = instance
	}
}

// of returns the representative of a topic's story; it is empty for no topic.
func (s *stories) of(t topic) string {
	if len(t.ids) == 0 {
		return ""
	}
	return s.find(t.ids[0])
}

// numbered is a request with its number in the record.
type numbered struct {
	number uint64
	sim.Exchange
}

// about returns the newest requests below a number, at most a limit, that contain a text or belong to a story with it,
// and the number below which there are more, or 0. The text is an instance, an accelerator
// request, or any text.
func about(record iter.Seq2[uint64, sim.Exchange], text string, before uint64, limit int) (found []sim.Exchange, older uint64) {
	all, wanted := newStories(), make(map[string]bool)
	topics := make(map[uint64]topic)
	for number, r := range record {
		t := topicOf(r)
		all.add(t)
		topics[number] = t
	}
	for id := range all.parent {
		if strings.Contains(id, text) {
			wanted[all.find(id)] = true
		}
	}
	var kept []numbered
	for number, r := range record {
		if number < before && (wanted[all.of(topics[number])] || contains(r, text)) {
			kept = append(kept, numbered{number, r})
			if len(kept) > 2*limit {
				kept = slices.Delete(kept, 0, len(kept)-limit-1)
			}
		}
	}
	if cut := len(kept) - limit; cut > 0 {
		kept, older = kept[cut:], kept[cut].number
	}
	for _, k := range kept {
		found = append(found, k.Exchange)
	}
	return found, older
}

// contains reports whether a request or what it changed has a text.
func contains(r sim.Exchange, text string) bool {
	for _, part := range []string{r.Path, r.Query, string(r.Operation), r.From, r.RequestID} {
		if strings.Contains(part, text) {
			return true
		}
	}
	return slices.ContainsFunc(r.Changes, func(c sim.Change) bool { return strings.Contains(c.ID, text) || strings.Contains(c.What, text) })
}
