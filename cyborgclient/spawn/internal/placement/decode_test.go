package placement

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// object is a JSON object whose members are decoded one by one. A null has no members, and the last of duplicate
// members wins.
type object = map[string]json.RawMessage

// reference decodes a response with encoding/json.
func reference(text string) (requests []AllocationRequest, providers map[string]Details, err error) {
	providers = map[string]Details{}
	var answer object
	read := func(data json.RawMessage, to any) {
		if data != nil {
			err = errors.Join(err, json.Unmarshal(data, to))
		}
	}
	read(json.RawMessage(text), &answer)
	var entries, summaries = []object{}, map[string]object{}
	read(answer["allocation_requests"], &entries)
	read(answer["provider_summaries"], &summaries)
	for _, entry := range entries {
		var request AllocationRequest
		read(entry["mappings"], &request.Mappings)
		var allocations map[string]object
		read(entry["allocations"], &allocations)
		for provider, allocation := range allocations {
			if request.Allocations == nil {
				request.Allocations = Resources{}
			}
			var amounts map[string]int
			read(allocation["resources"], &amounts)
			request.Allocations[provider] = amounts
		}
		requests = append(requests, request)
	}
	for uuid, summary := range summaries {
		whole := Details{Capacity: map[string]int{}, Used: map[string]int{}}
		read(summary["parent_provider_uuid"], &whole.Parent)
		read(summary["root_provider_uuid"], &whole.Root)
		read(summary["traits"], &whole.Traits)
		var resources map[string]object
		read(summary["resources"], &resources)
		for class, inventory := range resources {
			var capacity, used int
			read(inventory["capacity"], &capacity)
			read(inventory["used"], &used)
			whole.Capacity[class], whole.Used[class] = capacity, used
		}
		for _, trait := range whole.Traits {
			whole.Kind |= map[string]Kind{"OWNER_NOVA": KindNova, "OWNER_CYBORG": KindCyborg, "MISC_SHARES_VIA_AGGREGATE": KindShares}[trait]
		}
		providers[uuid] = whole
	}
	return requests, providers, err
}

const answerText = `{"allocation_requests": [
	{"allocations": {"p1": {"resources": {"VCPU": 2, "MEMORY_MB": 2048}}, "p2": {"resources": {"PGPU": 1}}}, "mappings": {"": ["p1"], "_G": ["p2"]}},
	{"mappings": {"": ["p1", "p3"]}, "allocations": {"p3": {"resources": {"DISK_GB": 20}, "generation": 7}}}],
	"provider_summaries": {
	"p1": {"resources": {"VCPU": {"capacity": 64, "used": 2}}, "traits": ["HW_CPU_X86_AVX", "OWNER_NOVA"], "parent_provider_uuid": null, "root_provider_uuid": "p1"},
	"p2": {"resources": {}, "traits": ["CUSTOM_A", "OWNER_CYBORG"], "parent_provider_uuid": "p1", "root_provider_uuid": "p1"},
	"p3": {"resources": {"DISK_GB": {"used": 0, "capacity": 100}}, "traits": ["MISC_SHARES_VIA_AGGREGATE"], "root_provider_uuid": "p3"}}}`

// decodeSeeds are valid and invalid responses.
func decodeSeeds() []string {
	seeds := []string{
		answerText, "", "null", "{}", "[]", "7", `{"allocation_requests": null, "provider_summaries": null}`, `{"allocation_requests": [null]}`,
		`{"allocation_requests": [], "provider_summaries": {}} x`, " {\t}\r\n", `{"x": [1, -0, 0.5, 1e5, -1.5E+30, true, false, null, {"y": "\u00e9\n\"\\"}]}`,
		`{"allocation_requests": [{"allocations": {"p": {"resources": {"VCPU": 1, "VCPU": 2}}}, "allocations": {}}]}`,
		`{"allocation_requests": [{"allocations": {"p": null, "q": {"resources": null}}, "mappings": null}, {"mappings": {"": null}}]}`,
		`{"provider_summaries": {"p": {"traits": ["OWNER\u005fNOVA", "é"]}, "q": null, "p": {"traits": null, "resources": {"A": null}}}}`,
		`{"provider_summaries": {"p": {"traits": ["OWNER_NOVA"], "traits": ["X"]}}}`, `{"provider_summaries": {"p": {"traits": {}, "traits": ["X"]}}}`,
		strings.Repeat(`{"x":[`, 5001) + strings.Repeat(`]}`, 5001), strings.Repeat(`[`, 10000) + strings.Repeat(`]`, 10000),
		`{"x":` + strings.Repeat(`[`, 9999) + strings.Repeat(`]`, 9999) + `}`, `{"x":` + strings.Repeat(`[`, 10000) + strings.Repeat(`]`, 10000) + `}`,
	}
	for _, value := range []string{
		"01", "1.", "1.0", "1e2", "-", "+1", ".5", "1e", "99999999999999999999", "-1", `"1"`, "tru", "nul", "True", `"`, `"\x"`, `"\ud800"`, `"a` + "\n" + `"`, "\"\xff\xfe\"", "[", "{", "]",
		"[1,]", `{"a":1,}`, `{"a"}`, `{a:1}`, "[1 2]", "\x00", `"\`,
	} {
		seeds = append(seeds, `{"x": `+value+`}`, `{"allocation_requests": [{"allocations": {"p": {"resources": {"VCPU": `+value+`}}}}]}`,
			`{"provider_summaries": {"p": {"root_provider_uuid": `+value+`, "traits": [`+value+`]}}}`)
	}
	return seeds
}

// repeatsAMember reports whether an object of a document has a member twice.
func repeatsAMember(text string) bool {
	type open struct {
		members map[string]bool // nil for an array
		value   bool            // a value comes next
	}
	var stack []open
	for dec := json.NewDecoder(strings.NewReader(text)); ; {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			stack = stack[:len(stack)-1]
			continue
		}
		if n := len(stack) - 1; n >= 0 && stack[n].members != nil {
			if name, ok := token.(string); ok && !stack[n].value {
				if stack[n].members[name] {
					return true
				}
				stack[n].members[name] = true
			}
			stack[n].value = !stack[n].value
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, open{members: map[string]bool{}})
		case json.Delim('['):
			stack = append(stack, open{})
		}
	}
}

// FuzzCandidates compares the reader of answers with encoding/json.
func FuzzCandidates(f *testing.F) {
	for _, seed := range decodeSeeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := decodeCandidates([]byte(text))
		requests, providers, wantErr := reference(text)
		switch {
		case err != nil && wantErr == nil && repeatsAMember(text): // of what is overwritten every form is checked, too
			return
		case (err != nil) != (wantErr != nil):
			t.Fatalf("got error %v, encoding/json has %v", err, wantErr)
		case err != nil:
			return
		}
		if diff := cmp.Diff(requests, got.Requests, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("allocation requests (-want +got):\n%s", diff)
		}
		summaries := maps.Collect(got.Providers.Details())
		if diff := cmp.Diff(providers, summaries, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("provider summaries (-want +got):\n%s", diff)
		}
	})
}

// Every truncated response returns an error with the position.
func TestATruncatedAnswerIsAnError(t *testing.T) {
	t.Parallel()
	for n := range answerText {
		_, err := decodeCandidates([]byte(answerText[:n]))
		if err == nil || !strings.HasPrefix(err.Error(), "malformed JSON at byte ") {
			t.Errorf("%d bytes: error %v", n, err)
		}
	}
	if _, err := decodeCandidates([]byte(answerText)); err != nil {
		t.Error(err)
	}
}
