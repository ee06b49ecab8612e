package placement

import (
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/jsonread"
)

// summaryLength is the approximate length of a summary in bytes. maxRepeated is the number of recent texts that are
// compared, because the providers of a cloud have few different ones.
const (
	summaryLength = 512
	maxRepeated   = 8
)

// answerReader decodes a response. The result shares no memory with the document, whose buffer is reused.
type answerReader struct {
	jsonread.Reader
	Candidates
	names       strings.Builder // memory of the strings of the result
	words       []string        // names of groups and classes
	lists       []string        // memory of the lists of mappings
	amounts     []map[string]int
	amountTexts []string // JSON, of the same amounts
}

// decodeCandidates decodes a response. A missing or null member is empty, the last of duplicate members is used, and
// unknown members are ignored.
func decodeCandidates(text []byte) (*Candidates, error) {
	r := &answerReader{Reader: jsonread.New(text)}
	providers := len(text) / summaryLength
	r.Providers.index = make(map[string]int32, providers)
	r.Providers.uuids, r.Providers.rows = make([]string, 0, providers), make([]row, 0, providers)
	r.names.Grow(len(text) / 8)
	r.Object(func(key []byte) {
		switch string(key) {
		case "allocation_requests":
			r.Requests = nil
			r.Array(func() { r.Requests = append(r.Requests, r.allocationRequest()) })
		case "provider_summaries":
			for i := range r.Providers.rows {
				r.Providers.rows[i] = row{}
			}
			r.Object(func(uuid []byte) {
				i := r.provider(uuid) - 1
				r.Providers.rows[i] = r.summary()
			})
		default:
			r.Skip()
		}
	})
	if err := r.End(); err != nil {
		return nil, err
	}
	answer := r.Candidates // without the buffers of the reader
	return &answer, nil
}

// keep copies a text.
func (r *answerReader) keep(text []byte) string {
	begin := r.names.Len()
	r.names.Write(text)
	return r.names.String()[begin:]
}

// provider returns the number of a provider, from 1 on.
func (r *answerReader) provider(uuid []byte) int32 {
	p := &r.Providers
	i, known := p.index[string(uuid)]
	if !known {
		i = int32(len(p.rows))
		p.uuids, p.rows = append(p.uuids, r.keep(uuid)), append(p.rows, row{})
		p.index[p.uuids[i]] = i
	}
	return i + 1
}

// word returns the name of a group or class.
func (r *answerReader) word(name []byte) string {
	recent := r.words[max(0, len(r.words)-maxRepeated):]
	for _, w := range recent {
		if w == string(name) {
			return w
		}
	}
	r.words = append(r.words, r.keep(name))
	return r.words[len(r.words)-1]
}

// allocationRequest reads a candidate.
func (r *answerReader) allocationRequest() (request AllocationRequest) {
	r.Object(func(key []byte) {
		switch string(key) {
		case "allocations":
			request.Allocations = Resources{}
			r.Object(func(provider []byte) {
				uuid := r.Providers.uuids[r.provider(provider)-1]
				n := r.sharedText(&r.amountTexts, func() { r.amounts = append(r.amounts, r.readAmounts()) })
				request.Allocations[uuid] = r.amounts[n-1]
			})
		case "mappings":
			request.Mappings = r.mappings()
		default:
			r.Skip()
		}
	})
	return request
}

// sharedText returns the number, from 1 on, of the text of an object or array. If the text was not among the recent
// ones, it calls read.
func (r *answerReader) sharedText(texts *[]string, read func()) int32 {
	begin := r.Begin()
	for i := len(*texts); i > max(0, len(*texts)-maxRepeated); i-- {
		if r.Repeats((*texts)[i-1]) {
			return int32(i)
		}
	}
	read()
	*texts = append(*texts, string(r.Since(begin)))
	return int32(len(*texts))
}

// readAmounts reads {"resources": {"PGPU": 1}}.
func (r *answerReader) readAmounts() (amounts map[string]int) {
	r.Object(func(key []byte) {
		if string(key) != "resources" {
			r.Skip()
			return
		}
		amounts = map[string]int{}
		r.Object(func(class []byte) { amounts[r.word(class)] = r.Int() })
	})
	return amounts
}

func (r *answerReader) mappings() map[string][]string {
	if r.Null() {
		return nil
	}
	mappings := map[string][]string{}
	r.Object(func(group []byte) {
		name, begin := r.word(group), len(r.lists)
		r.Array(func() { r.lists = append(r.lists, r.Providers.uuids[r.provider(r.String())-1]) })
		mappings[name] = slices.Clip(r.lists[begin:])
	})
	return mappings
}

func (r *answerReader) summary() row {
	p, s := &r.Providers, row{given: true}
	r.Object(func(key []byte) {
		switch string(key) {
		case "parent_provider_uuid":
			s.parent = r.optionalProvider()
		case "root_provider_uuid":
			s.root = r.optionalProvider()
		case "traits":
			s.traits = r.sharedText(&p.traits, func() { p.kinds = append(p.kinds, r.readTraits()) })
		case "resources":
			s.resources = r.sharedText(&p.resources, func() { r.Object(func([]byte) { inventory(&r.Reader) }) })
		default:
			r.Skip()
		}
	})
	return s
}

// optionalProvider reads a provider UUID. It returns 0 for null.
func (r *answerReader) optionalProvider() int32 {
	if uuid := r.Optional(); len(uuid) > 0 {
		return r.provider(uuid)
	}
	return 0
}

func (r *answerReader) readTraits() (kind Kind) {
	r.Array(func() { kind |= kindOf(string(r.String())) })
	return kind
}

// inventory reads {"capacity": 8, "used": 1}.
func inventory(r *jsonread.Reader) (capacity, used int) {
	r.Object(func(key []byte) {
		switch string(key) {
		case "capacity":
			capacity = r.Int()
		case "used":
			used = r.Int()
		default:
			r.Skip()
		}
	})
	return capacity, used
}
